"""Budgets: how much of something a tenant, a user, an agent or a skill may use in a window of time (U9)."""
