"""Handing turns over to other agents, and stopping a turn with all that came of it (B17, U10)."""
