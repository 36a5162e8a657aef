"""Alembic migrations, numbered."""
