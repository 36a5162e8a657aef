"""Triggers that fire when files change (B2)."""
