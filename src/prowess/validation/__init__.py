"""Proving skills before they are used (V): level 1 is ``syntax``; each level adds to a ``report``."""
