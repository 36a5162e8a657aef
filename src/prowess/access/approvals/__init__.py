"""Approvals: a yes to one operation with exactly these arguments, which outlives the request (G13, U8)."""
