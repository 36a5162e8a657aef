"""Skill files laid out on disk for one call, and taken away again (G12)."""
