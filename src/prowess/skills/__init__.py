"""Manifests, skill folders, the catalog and bindings."""
