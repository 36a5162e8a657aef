"""What wakes the workers of the job ledger beyond one process."""
