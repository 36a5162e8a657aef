"""Alembic's entry: always inside the transaction that ``db.schema.migrate`` opened."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, render_as_batch=True, transaction_per_migration=False)
# Not ``begin_transaction``: the caller commits, so that a migration that dies leaves nothing behind.
context.run_migrations()
