"""Sandboxes: what runs the scripts of skills, and what they reach from there."""
