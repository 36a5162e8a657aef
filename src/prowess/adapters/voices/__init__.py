"""Voices: the offline one, and models."""
