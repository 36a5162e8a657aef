"""What jobs do, a module a task."""
