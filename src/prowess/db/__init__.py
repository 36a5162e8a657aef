"""Connections, transactions and the schema, on SQLite and PostgreSQL."""
