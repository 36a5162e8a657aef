"""Triggers that fire at the event of another turn (B2)."""
