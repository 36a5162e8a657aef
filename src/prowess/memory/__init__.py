"""What an agent remembers of a user."""
