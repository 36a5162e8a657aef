"""The table of validation reports (V4), which is also the cache of level 3: one row for content, level and rules."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Float, Index, Integer, Table, Text, UniqueConstraint, bindparam, select

from prowess.db.metadata import instant, metadata
from prowess.db.statements import upsert

validation_reports = Table(
    "validation_reports",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("skill_id", Text, nullable=True),
    Column("version", Text, nullable=True),
    Column("digest", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("trust", Text, nullable=False),
    Column("rules_version", Text, nullable=False),
    Column("passed", Integer, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("duration_ms", Float, nullable=False),
    Column("checks", Integer, nullable=False),
    Column("issues", Text, nullable=False),
    instant("created_at"),
    UniqueConstraint("tenant", "digest", "level", "trust", "rules_version"),
    Index("ix_validation_reports_skill", "tenant", "skill_id", "created_at"),
)

_columns = validation_reports.c
_FIND = select(validation_reports).where(
    _columns.tenant == bindparam("tenant"),
    _columns.digest == bindparam("digest"),
    _columns.level == bindparam("level"),
    _columns.trust == bindparam("trust"),
    _columns.rules_version == bindparam("rules_version"),
)
_OF_SKILL = (
    select(validation_reports)
    .where(_columns.tenant == bindparam("tenant"), _columns.skill_id == bindparam("skill_id"))
    .order_by(_columns.created_at.desc(), _columns.id.desc())
    .limit(bindparam("limit"))
)


def find_report(connection: Connection, key: dict[str, str]) -> dict[str, Any] | None:
    """The row of ``tenant``, ``digest``, ``level``, ``trust`` and ``rules_version``."""
    row = connection.execute(_FIND, key).mappings().first()
    return dict(row) if row is not None else None


def reports_of(connection: Connection, tenant: str, skill_id: str, limit: int) -> list[dict[str, Any]]:
    """The latest rows of one skill, newest first."""
    found = connection.execute(_OF_SKILL, {"tenant": tenant, "skill_id": skill_id, "limit": limit})
    return [dict(row) for row in found.mappings()]


def add_report(connection: Connection, row: dict[str, Any]) -> None:
    """Keep a report; where another process has just kept the same, that one stays."""
    connection.execute(upsert(connection, validation_reports).values(row).on_conflict_do_nothing())
