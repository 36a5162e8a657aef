"""Tool skills whose handler is a script in the sandbox (X6)."""
