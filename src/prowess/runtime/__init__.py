"""Settings, the one composition root, and the façade."""
