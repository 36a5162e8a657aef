"""The network of a sandboxed run: a proxy that lets through what the manifest names, and the way to it from inside."""
