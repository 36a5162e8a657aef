"""Level 2: does a skill's script do what it says? Its cases and the bounds of its schema, in the sandbox (V2)."""
