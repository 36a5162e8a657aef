"""What ports are implemented with; chosen in the runtime alone."""
