"""The append-only event log and its followers."""
