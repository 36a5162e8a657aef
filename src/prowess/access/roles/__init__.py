"""Entitlement by role: identity → roles → skills, groups and tools (U3)."""
