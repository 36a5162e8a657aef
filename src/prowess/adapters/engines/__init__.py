"""Engines: what wakes a worker when jobs are due."""
