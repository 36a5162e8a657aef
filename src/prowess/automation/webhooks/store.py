"""Which deliveries a trigger has had: by their id, and by their body (C59)."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Index, Table, Text, delete

from prowess.db.metadata import instant, metadata
from prowess.db.statements import upsert

deliveries = Table(
    "automation_deliveries",
    metadata,
    Column("trigger_id", Text, primary_key=True),
    Column("delivery", Text, primary_key=True),
    Column("body_digest", Text, nullable=False),
    instant("received_at"),
    Index("uq_automation_deliveries_body", "trigger_id", "body_digest", unique=True),
)


def insert_delivery(connection: Connection, trigger_id: str, delivery: str, body_digest: str, at_ms: int) -> bool:
    """Note a delivery; false where its id or its body was there already."""
    row = {"trigger_id": trigger_id, "delivery": delivery, "body_digest": body_digest, "received_at": at_ms}
    stored = upsert(connection, deliveries).values(row).on_conflict_do_nothing().returning(deliveries.c.trigger_id)
    return connection.execute(stored).first() is not None


def forget_deliveries(connection: Connection, trigger_id: str, before_ms: int) -> None:
    """Forget what came before an instant."""
    old = deliveries.c.received_at < before_ms
    connection.execute(delete(deliveries).where(deliveries.c.trigger_id == trigger_id, old))
