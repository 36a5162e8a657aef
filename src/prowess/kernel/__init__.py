"""Clock, ids, canonical JSON, text and untrusted text."""
