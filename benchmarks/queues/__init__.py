"""The queues that ``prowess bench jobs`` compares, a module each."""
