"""Agents, conversations, groups and messages."""
