"""Triggers: what starts an automation, and the one place where a fire becomes a job (B2)."""
