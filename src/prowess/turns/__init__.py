"""A turn from message to reply: selectors, sessions, runners, dispatch."""
