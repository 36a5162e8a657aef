"""Evaluation cases, as data: one JSON object a line."""
