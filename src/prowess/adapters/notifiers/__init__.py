"""Notifiers: what carries notifications to receivers outside."""
