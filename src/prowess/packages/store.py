"""Tables and queries of installs, their files in quarantine, and trusted keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    Row,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from prowess.db.metadata import instant, metadata
from prowess.db.statements import upsert
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms
from prowess.packages.model import Changes, Install, InstallState, TrustedKey
from prowess.skills.trust import Trust

skill_installs = Table(
    "skill_installs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("skill_id", Text),
    Column("version", Text),
    Column("digest", Text),
    Column("source", Text, nullable=False),
    Column("source_kind", Text, nullable=False),
    Column("folder", Text, nullable=False),
    Column("own", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("outcome", Text),
    Column("trust", Text),
    Column("signer", Text),
    Column("signature", Text),
    Column("permission_level", Integer),
    Column("report", Text, nullable=False),
    Column("changes", Text),
    Column("installed_by", Text, nullable=False),
    Column("decided_by", Text),
    instant("created_at"),
    instant("changed_at"),
    Index("ix_skill_installs_state", "tenant", "state", "created_at"),
    Index("ix_skill_installs_skill", "tenant", "skill_id", "version"),
)

quarantined_files = Table(
    "quarantined_files",
    metadata,
    Column("install_id", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("executable", Boolean, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

trusted_keys = Table(
    "trusted_keys",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("key_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("prefix", Text, nullable=False),
    Column("trusted_by", Text, nullable=False),
    instant("trusted_at"),
    Column("revoked_by", Text),
    instant("revoked_at", nullable=True),
)

_OPEN = (InstallState.QUARANTINED, InstallState.CHECKED, InstallState.AWAITING_APPROVAL)


def insert_install(connection: Connection, values: Mapping[str, Any]) -> None:
    """Store a new one."""
    connection.execute(insert(skill_installs).inline(), dict(values))


def change_install(
    connection: Connection, tenant: str, install_id: str, before: InstallState, values: Mapping[str, Any]
) -> bool:
    """Change one that is still in the state ``before``; false where somebody was faster."""
    statement = update(skill_installs).where(
        skill_installs.c.id == install_id, skill_installs.c.tenant == tenant, skill_installs.c.state == str(before)
    )
    return connection.execute(statement.values(**values)).rowcount == 1


def find_install(connection: Connection, tenant: str, install_id: str) -> Row[Any] | None:
    """The row of one, or none."""
    of = (skill_installs.c.id == install_id, skill_installs.c.tenant == tenant)
    return connection.execute(select(skill_installs).where(*of)).first()


def list_installs(connection: Connection, tenant: str, states: Iterable[str] | None, limit: int) -> list[Install]:
    """The newest first; ``states`` null: all."""
    query = select(skill_installs).where(skill_installs.c.tenant == tenant)
    if states is not None:
        query = query.where(skill_installs.c.state.in_([str(state) for state in states]))
    query = query.order_by(skill_installs.c.created_at.desc(), skill_installs.c.id.desc()).limit(limit)
    return [to_install(row) for row in connection.execute(query)]


def open_installs(connection: Connection, tenant: str) -> int:
    """How many hold files in quarantine."""
    of = (skill_installs.c.tenant == tenant, skill_installs.c.state.in_([str(state) for state in _OPEN]))
    return int(connection.execute(select(func.count()).select_from(skill_installs).where(*of)).scalar_one())


def active_installs(connection: Connection, tenant: str, skill_id: str, version: str) -> list[str]:
    """Ids of the installs by which a version came to serve."""
    of = (
        skill_installs.c.tenant == tenant,
        skill_installs.c.skill_id == skill_id,
        skill_installs.c.version == version,
        skill_installs.c.state == str(InstallState.ACTIVE),
    )
    return [row.id for row in connection.execute(select(skill_installs.c.id).where(*of))]


def insert_files(connection: Connection, install_id: str, files: Iterable[tuple[str, bytes, bool]]) -> None:
    """Store ``(path, content, executable)``, one by one: together they may be large."""
    statement = insert(quarantined_files).inline()
    for path, content, executable in files:
        row = {"install_id": install_id, "path": path, "content": content, "executable": executable}
        connection.execute(statement, row)


def files_in_quarantine(connection: Connection, install_id: str) -> Iterator[tuple[str, bytes, bool]]:
    """``(path, content, executable)`` by path."""
    query = select(quarantined_files).where(quarantined_files.c.install_id == install_id)
    for row in connection.execute(query.order_by(quarantined_files.c.path)):
        yield row.path, row.content, row.executable


def delete_files(connection: Connection, install_id: str) -> None:
    """What was decided needs no quarantine."""
    connection.execute(delete(quarantined_files).where(quarantined_files.c.install_id == install_id))


def put_key(connection: Connection, tenant: str, key: TrustedKey, *, trusted_by: str, at_ms: int) -> None:
    """Trust a key, again where it was revoked."""
    changed = {
        "name": key.name,
        "public_key": key.public,
        "prefix": key.prefix,
        "trusted_by": trusted_by,
        "trusted_at": at_ms,
        "revoked_by": None,
        "revoked_at": None,
    }
    put = upsert(connection, trusted_keys).values(tenant=tenant, key_id=key.key_id, **changed)
    columns = [trusted_keys.c.tenant, trusted_keys.c.key_id]
    connection.execute(put.on_conflict_do_update(index_elements=columns, set_=changed))


def revoke_key(connection: Connection, tenant: str, key_id: str, *, revoked_by: str, at_ms: int) -> bool:
    """End the trust in a key; false where it was not trusted."""
    statement = update(trusted_keys).where(
        trusted_keys.c.tenant == tenant, trusted_keys.c.key_id == key_id, trusted_keys.c.revoked_at.is_(None)
    )
    return connection.execute(statement.values(revoked_by=revoked_by, revoked_at=at_ms)).rowcount == 1


def keys_of(connection: Connection, tenant: str) -> list[TrustedKey]:
    """Every key that is or was trusted, by name."""
    query = select(trusted_keys).where(trusted_keys.c.tenant == tenant)
    rows = connection.execute(query.order_by(trusted_keys.c.name, trusted_keys.c.key_id))
    return [
        TrustedKey(
            row.key_id,
            row.name,
            row.public_key,
            row.prefix,
            from_ms(row.trusted_at),
            None if row.revoked_at is None else from_ms(row.revoked_at),
        )
        for row in rows
    ]


def to_install(row: Row[Any]) -> Install:
    """A row as a record."""
    return Install(
        id=row.id,
        tenant=row.tenant,
        skill=row.skill_id,
        version=row.version,
        digest=row.digest,
        source=row.source,
        kind=row.source_kind,
        state=InstallState(row.state),
        reason=row.reason,
        outcome=row.outcome,
        trust=None if row.trust is None else Trust(row.trust),
        signer=row.signer,
        level=row.permission_level,
        report=json.loads(row.report),
        changes=None if row.changes is None else Changes.from_json(json.loads(row.changes)),
        installed_by=row.installed_by,
        decided_by=row.decided_by,
        created_at=from_ms(row.created_at),
        changed_at=from_ms(row.changed_at),
    )


def report_text(report: Mapping[str, Any]) -> str:
    """A report as a column."""
    return compact_json(dict(report))
