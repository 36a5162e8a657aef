"""What programs reach over HTTP."""
