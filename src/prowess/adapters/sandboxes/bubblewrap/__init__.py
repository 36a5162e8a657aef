"""Scripts in namespaces of their own, by bubblewrap, with filters, Landlock, limits, and a process 1 that is ours."""
