"""One runner a kind of skill."""
