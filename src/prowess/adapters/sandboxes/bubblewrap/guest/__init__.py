"""What runs inside the sandbox: sent there as code, never run by the host. The standard library of Python 3.9 alone."""
