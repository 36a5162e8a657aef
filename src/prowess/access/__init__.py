"""The law: requirements, grants and the one gate."""
