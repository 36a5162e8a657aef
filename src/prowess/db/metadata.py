"""One ``MetaData`` for every table, with names for every constraint, so that migrations can name them.

Each room declares its tables in its own ``store.py``; instants are integers (milliseconds, UTC), JSON is text.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

BigIntKey = BigInteger().with_variant(Integer, "sqlite")
"""A growing key: SQLite grows only columns of type INTEGER."""


def instant(name: str, *, nullable: bool = False) -> Column[int]:
    """A column of milliseconds since the epoch."""
    return Column(name, BigInteger, nullable=nullable)
