"""What the code of a skill may touch while it runs, and what came of a run (X6, sandbox design)."""
