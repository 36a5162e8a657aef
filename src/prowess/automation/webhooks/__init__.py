"""Signed requests from outside that make a trigger fire (B2, C59, C60)."""
