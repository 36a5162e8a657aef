"""Standing approvals: what a person has always allowed, action by action (U5)."""
