"""Level 3, security (V3): what a skill may reach, what its code does, what its texts ask for; a module a family of rules."""
