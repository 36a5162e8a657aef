"""Tables and queries of triggers and their fires."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, Row, Table, Text, func, insert, select, update

from prowess.access.model import Mode
from prowess.automation.triggers.model import (
    Fire,
    FireStatus,
    Kind,
    Misfire,
    RateLimit,
    Status,
    Trigger,
)
from prowess.db.metadata import instant, metadata
from prowess.db.statements import upsert
from prowess.events.model import Actor
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, to_ms

triggers = Table(
    "automation_triggers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("skill_id", Text),
    Column("prompt", Text, nullable=False),
    Column("conversation_id", Text),
    Column("preapproved", Text, nullable=False),
    Column("mode", Text),
    Column("rate_fires", Integer, nullable=False),
    Column("rate_seconds", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("misfire", Text, nullable=False),
    Column("misfire_bound", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    instant("next_fire_at", nullable=True),
    instant("anchor_at"),
    instant("active_since"),
    Column("revision", Integer, nullable=False),
    Column("created_by_kind", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    instant("created_at"),
    instant("changed_at"),
    Column("zone_data", Text, nullable=False),
    Index("ix_automation_triggers_due", "status", "next_fire_at"),
    Index("ix_automation_triggers_owner", "tenant", "user_id"),
)

fires = Table(
    "automation_fires",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("trigger_id", Text, nullable=False),
    Column("slot", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("status", Text, nullable=False),
    instant("at"),
    instant("planned_at", nullable=True),
    Column("late_ms", BigInteger),
    Column("missed", Integer, nullable=False),
    instant("missed_from", nullable=True),
    Column("note", Text, nullable=False),
    Column("job_id", Text),
    Column("depth", Integer, nullable=False),
    Index("uq_automation_fires_slot", "trigger_id", "slot", unique=True),
    Index("ix_automation_fires_at", "trigger_id", "at"),
    Index("ix_automation_fires_job", "job_id"),
)

_T = triggers.c
_CHANGED = tuple(column.name for column in triggers.columns if column.name not in ("id", "tenant"))


def insert_trigger(connection: Connection, trigger: Trigger) -> None:
    """Store a new one."""
    connection.execute(insert(triggers).inline(), _to_row(trigger))


def replace_trigger(connection: Connection, trigger: Trigger, *, expected: Trigger) -> bool:
    """Store what a trigger became; false where it is no longer what it was thought to be (B12)."""
    row = _to_row(trigger)
    same_time = (
        _T.next_fire_at.is_(None) if expected.next_fire_at is None else _T.next_fire_at == to_ms(expected.next_fire_at)
    )
    statement = update(triggers).where(_T.id == expected.id, _T.revision == expected.revision, same_time)
    return connection.execute(statement.values({name: row[name] for name in _CHANGED})).rowcount == 1


def break_trigger(connection: Connection, trigger: Trigger, reason: str, at_ms: int) -> bool:
    """Flag a row that cannot be used, leaving the rest of it as it is; false where somebody has meanwhile (C54)."""
    statement = update(triggers).where(
        _T.id == trigger.id, _T.revision == trigger.revision, _T.status == str(Status.ACTIVE)
    )
    values: dict[str, Any] = {"status": str(Status.BROKEN), "reason": reason, "next_fire_at": None}
    values |= {"changed_at": at_ms, "revision": trigger.revision + 1}
    return connection.execute(statement.values(values)).rowcount == 1


def find_trigger(connection: Connection, trigger_id: str, tenant: str | None = None) -> Trigger | None:
    """One trigger, of whichever tenant where none is given."""
    query = select(triggers).where(_T.id == trigger_id)
    if tenant is not None:
        query = query.where(_T.tenant == tenant)
    row = connection.execute(query).first()
    return None if row is None else _to_trigger(row)


def list_triggers(
    connection: Connection, tenant: str, user: str | None = None, *, with_removed: bool = False
) -> list[Trigger]:
    """The triggers of a user or of the whole tenant, oldest first."""
    query = select(triggers).where(_T.tenant == tenant)
    if user is not None:
        query = query.where(_T.user_id == user)
    if not with_removed:
        query = query.where(_T.status != str(Status.REMOVED))
    return [_to_trigger(row) for row in connection.execute(query.order_by(_T.created_at, _T.id))]


def count_kept(connection: Connection, tenant: str, user: str) -> int:
    """How many triggers the user has that are not removed."""
    query = select(func.count()).where(_T.tenant == tenant, _T.user_id == user, _T.status != str(Status.REMOVED))
    return connection.execute(query).scalar_one()


def due_triggers(connection: Connection, now_ms: int, limit: int) -> list[Trigger]:
    """Active triggers whose time has come: one of each tenant in turn, the longest due first (B10)."""
    turn = func.row_number().over(partition_by=_T.tenant, order_by=(_T.next_fire_at, _T.id)).label("turn")
    due = select(triggers, turn).where(_T.status == str(Status.ACTIVE), _T.next_fire_at <= now_ms).subquery()
    ordered = select(due).order_by(due.c.turn, due.c.next_fire_at, due.c.id).limit(limit)
    return [_to_trigger(row) for row in connection.execute(ordered)]


def first_due(connection: Connection) -> datetime | None:
    """When the next trigger is due; null where none is."""
    query = select(func.min(_T.next_fire_at)).where(_T.status == str(Status.ACTIVE))
    found = connection.execute(query).scalar()
    return None if found is None else from_ms(found)


def other_zone_data(connection: Connection, version: str, limit: int) -> list[Trigger]:
    """Active triggers whose next fire was found with other zone data."""
    query = select(triggers).where(
        _T.status == str(Status.ACTIVE), _T.next_fire_at.is_not(None), _T.zone_data != version
    )
    return [_to_trigger(row) for row in connection.execute(query.order_by(_T.next_fire_at).limit(limit))]


def active_triggers(
    connection: Connection, kind: Kind, owners: Iterable[tuple[str, str]] | None = None
) -> list[Trigger]:
    """Active triggers of one kind, of these (tenant, user) or of everybody."""
    query = select(triggers).where(_T.status == str(Status.ACTIVE), _T.kind == str(kind)).order_by(_T.id)
    if owners is not None:
        wanted = set(owners)
        users = sorted({user for _, user in wanted})
        found = (_to_trigger(row) for row in connection.execute(query.where(_T.user_id.in_(users))))
        return [trigger for trigger in found if (trigger.tenant, trigger.user) in wanted]
    return [_to_trigger(row) for row in connection.execute(query)]


def insert_fire(connection: Connection, fire: Fire) -> bool:
    """Store a fire; false where its slot was there already (B12)."""
    row = {
        "id": fire.id,
        "tenant": fire.tenant,
        "trigger_id": fire.trigger,
        "slot": fire.slot,
        "source": fire.source,
        "status": str(fire.status),
        "at": to_ms(fire.at),
        "planned_at": _ms(fire.planned),
        "late_ms": fire.late_ms,
        "missed": fire.missed,
        "missed_from": _ms(fire.missed_from),
        "note": fire.note,
        "job_id": fire.job_id,
        "depth": fire.depth,
    }
    stored = upsert(connection, fires).values(row).on_conflict_do_nothing().returning(fires.c.id)
    return connection.execute(stored).first() is not None


def set_job(connection: Connection, fire_id: str, job_id: str) -> None:
    """Note the job of a fire."""
    connection.execute(update(fires).where(fires.c.id == fire_id).values(job_id=job_id))


def fired_since(connection: Connection, trigger_id: str, after_ms: int) -> int:
    """How many jobs the trigger made after an instant."""
    query = select(func.count()).where(
        fires.c.trigger_id == trigger_id, fires.c.at > after_ms, fires.c.status == str(FireStatus.FIRED)
    )
    return connection.execute(query).scalar_one()


def list_fires(connection: Connection, trigger_id: str, limit: int) -> list[Fire]:
    """The trigger's history, newest first."""
    query = select(fires).where(fires.c.trigger_id == trigger_id)
    ordered = query.order_by(fires.c.at.desc(), fires.c.planned_at.desc(), fires.c.id.desc()).limit(limit)
    return [_to_fire(row) for row in connection.execute(ordered)]


def fire_of_job(connection: Connection, tenant: str, job_id: str) -> Fire | None:
    """The fire that made a job."""
    row = connection.execute(select(fires).where(fires.c.job_id == job_id, fires.c.tenant == tenant)).first()
    return None if row is None else _to_fire(row)


def latest_fire(connection: Connection, tenant: str, trigger_id: str) -> Fire | None:
    """The trigger's latest job, where it ever made one."""
    query = select(fires).where(
        fires.c.trigger_id == trigger_id, fires.c.tenant == tenant, fires.c.status == str(FireStatus.FIRED)
    )
    row = connection.execute(query.order_by(fires.c.at.desc()).limit(1)).first()
    return None if row is None else _to_fire(row)


def _to_row(trigger: Trigger) -> dict[str, Any]:
    return {
        "id": trigger.id,
        "tenant": trigger.tenant,
        "user_id": trigger.user,
        "agent_id": trigger.agent,
        "name": trigger.name,
        "kind": str(trigger.kind),
        "spec": compact_json(dict(trigger.spec)),
        "skill_id": trigger.skill,
        "prompt": trigger.prompt,
        "conversation_id": trigger.conversation,
        "preapproved": compact_json(list(trigger.preapproved)),
        "mode": None if trigger.mode is None else str(trigger.mode),
        "rate_fires": trigger.rate.fires,
        "rate_seconds": trigger.rate.seconds,
        "max_attempts": trigger.max_attempts,
        "misfire": str(trigger.misfire),
        "misfire_bound": trigger.misfire_bound,
        "status": str(trigger.status),
        "reason": trigger.reason,
        "next_fire_at": _ms(trigger.next_fire_at),
        "anchor_at": to_ms(trigger.anchor),
        "active_since": to_ms(trigger.active_since),
        "revision": trigger.revision,
        "created_by_kind": trigger.created_by.kind,
        "created_by": trigger.created_by.id,
        "created_at": to_ms(trigger.created_at),
        "changed_at": to_ms(trigger.changed_at),
        "zone_data": trigger.zone_data,
    }


E_ = TypeVar("E_", Kind, Status, Misfire)


def _to_trigger(row: Row[Any]) -> Trigger:
    """A row as a trigger. One that cannot be read is ``broken`` and says so, and the others stay readable (C54)."""
    faults: list[str] = []
    kind = _word(Kind, row.kind, Kind.ONCE, faults)
    status = _word(Status, row.status, Status.BROKEN, faults)
    misfire = _word(Misfire, row.misfire, Misfire.SKIP, faults)
    spec = _parsed(row.spec, dict, faults)
    preapproved = _parsed(row.preapproved, list, faults)
    mode = _mode(row.mode, faults)
    numbers = {name: _number(getattr(row, name), name, faults) for name in _NUMBERS}
    times = {name: _number(getattr(row, name), name, faults) for name in _TIMES}
    next_ms = None if row.next_fire_at is None else _number(row.next_fire_at, "next_fire_at", faults)
    return Trigger(
        id=row.id,
        tenant=row.tenant,
        user=row.user_id,
        agent=row.agent_id,
        name=row.name,
        kind=kind,
        spec=spec,
        skill=row.skill_id,
        prompt=row.prompt,
        conversation=row.conversation_id,
        preapproved=tuple(map(str, preapproved)),
        mode=mode,
        rate=RateLimit(numbers["rate_fires"], numbers["rate_seconds"]),
        max_attempts=numbers["max_attempts"],
        misfire=misfire,
        misfire_bound=numbers["misfire_bound"],
        status=Status.BROKEN if faults else status,
        reason=f"row_unreadable: {faults[0]}" if faults else row.reason,
        next_fire_at=None if next_ms is None else from_ms(next_ms),
        anchor=from_ms(times["anchor_at"]),
        active_since=from_ms(times["active_since"]),
        revision=numbers["revision"],
        created_by=Actor(row.created_by_kind, row.created_by),
        created_at=from_ms(times["created_at"]),
        changed_at=from_ms(times["changed_at"]),
        zone_data=row.zone_data,
    )


_NUMBERS = ("rate_fires", "rate_seconds", "max_attempts", "misfire_bound", "revision")
_TIMES = ("anchor_at", "active_since", "created_at", "changed_at")


def _number(value: Any, name: str, faults: list[str]) -> int:
    """SQLite keeps whatever was written into a column of numbers."""
    if type(value) is int and 0 <= value < 1 << 47:
        return value
    faults.append(name)
    return 1


def _word(kind: type[E_], text: str, otherwise: E_, faults: list[str]) -> E_:
    try:
        return kind(text)
    except ValueError:
        faults.append(kind.__name__.lower())
        return otherwise


def _mode(text: str | None, faults: list[str]) -> Mode | None:
    try:
        return None if text is None else Mode(text)
    except ValueError:
        faults.append("mode")
        return Mode.DONT_ASK


def _parsed(text: str, kind: type[Any], faults: list[str]) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, kind):
        faults.append("spec" if kind is dict else "preapproved")
        return kind()
    return value


def _to_fire(row: Row[Any]) -> Fire:
    return Fire(
        id=row.id,
        tenant=row.tenant,
        trigger=row.trigger_id,
        slot=row.slot,
        source=row.source,
        status=FireStatus(row.status),
        at=from_ms(row.at),
        planned=None if row.planned_at is None else from_ms(row.planned_at),
        late_ms=row.late_ms,
        missed=row.missed,
        missed_from=None if row.missed_from is None else from_ms(row.missed_from),
        note=row.note,
        job_id=row.job_id,
        depth=row.depth,
    )


def _ms(at: datetime | None) -> int | None:
    return None if at is None else to_ms(at)
