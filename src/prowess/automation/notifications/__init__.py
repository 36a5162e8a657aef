"""Notifications: who is told of what, in an inbox and by webhook (U6, U7, R5, B14, B15)."""
