"""Table and queries of locks: the version of a skill that serves a tenant, in place of the newest stable one (U11)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, Connection, Table, Text, delete, select

from prowess.db.metadata import instant, metadata
from prowess.db.statements import upsert
from prowess.kernel.clock import from_ms

skill_locks = Table(
    "skill_locks",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("skill_id", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("locked_by", Text, nullable=False),
    instant("locked_at"),
)


@dataclass(frozen=True, slots=True)
class SkillLock:
    """The version, by name and by content, that serves."""

    skill: str
    version: str
    digest: str
    locked_by: str
    locked_at: datetime


def locks_of(connection: Connection, tenant: str) -> dict[str, SkillLock]:
    """The locks of a tenant by skill."""
    rows = connection.execute(
        select(skill_locks).where(skill_locks.c.tenant == tenant).order_by(skill_locks.c.skill_id)
    )
    return {
        row.skill_id: SkillLock(row.skill_id, row.version, row.digest, row.locked_by, from_ms(row.locked_at))
        for row in rows
    }


def put_lock(
    connection: Connection, tenant: str, skill_id: str, *, version: str, digest: str, locked_by: str, at_ms: int
) -> None:
    """Lock a skill, in place of an earlier lock."""
    changed = {"version": version, "digest": digest, "locked_by": locked_by, "locked_at": at_ms}
    put = upsert(connection, skill_locks).values(tenant=tenant, skill_id=skill_id, **changed)
    columns = [skill_locks.c.tenant, skill_locks.c.skill_id]
    connection.execute(put.on_conflict_do_update(index_elements=columns, set_=changed))


def delete_lock(connection: Connection, tenant: str, skill_id: str) -> bool:
    """Unlock a skill; false where it was not locked."""
    of = (skill_locks.c.tenant == tenant, skill_locks.c.skill_id == skill_id)
    return connection.execute(delete(skill_locks).where(*of)).rowcount == 1
