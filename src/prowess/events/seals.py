"""Merkle seals over the log, and finding what was changed since (R4, ruling 12.30).

A seal covers the events since the one before: their Merkle root (RFC 6962: leaves and nodes hashed apart), their
number, and the digest of the seal before, so that seals form a chain. Each is also appended to a file outside the
database. Whoever changes, adds or removes a sealed event, or a seal, is found; whoever can write both places is not,
nor is anything that was done to events before they were sealed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import BigInteger, Column, Connection, Integer, Row, Table, Text, func, insert, select

from prowess.db.metadata import instant, metadata
from prowess.events.log import EventLog, events
from prowess.kernel.canonical import compact_json

BATCH = 5_000
GENESIS = "0" * 64

seals = Table(
    "event_seals",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("root", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("digest", Text, nullable=False),
    instant("sealed_at"),
)

FaultKind = Literal["events_differ", "seal_differs", "seal_missing", "anchor_differs", "anchor_unreadable"]


@dataclass(frozen=True, slots=True)
class Seal:
    """One seal. ``digest`` is over all other fields."""

    number: int
    first_seq: int
    last_seq: int
    count: int
    root: str
    previous: str
    sealed_at: int
    """milliseconds since the epoch"""
    digest: str

    def computed(self) -> str:
        """The digest that the fields have."""
        fields = {name: value for name, value in asdict(self).items() if name != "digest"}
        return hashlib.sha256(compact_json(dict(sorted(fields.items()))).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SealFault:
    """What does not fit: which seal, and the events that it covers."""

    kind: FaultKind
    seal: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. ``unsealed`` events and a missing ``anchor`` are what it cannot vouch for."""

    seals: int
    events: int
    """covered by the seals, as they say"""
    unsealed: int
    anchor: str | None
    """the file outside the database; null: there is none, so that a rewritten chain would not be found"""
    faults: tuple[SealFault, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        """``{"ok", "seals", "events", "unsealed", "anchor", "faults"}``."""
        return {"ok": self.ok, **asdict(self), "faults": [asdict(fault) for fault in self.faults]}


class SealService:
    """Seals and verifies. ``anchor``: the file to which seals are appended; null: none."""

    def __init__(self, log: EventLog, anchor: Path | None) -> None:
        self._log = log
        self._anchor = anchor

    def seal(self) -> Seal | None:
        """Seal what was logged since the last seal; null where that is nothing. Raises ``OSError`` for the file."""
        with self._log.transaction(None) as transaction:
            connection = transaction.connection
            self._log.hold_appends(connection)  # one sealer, and nothing is appended below what is sealed
            last = _last(connection)
            first = 1 if last is None else last.last_seq + 1
            tree, highest = MerkleTree(), 0
            for row in _rows(connection, first - 1, None):
                tree.add(_leaf(row))
                highest = row.seq
            if not tree.count:
                return None
            number, previous = (1, GENESIS) if last is None else (last.number + 1, last.digest)
            open_seal = Seal(number, first, highest, tree.count, tree.root(), previous, transaction.now_ms, "")
            made = Seal(**{**asdict(open_seal), "digest": open_seal.computed()})
            connection.execute(insert(seals).inline(), asdict(made))
            self._append(made)  # before the commit: a seal that is only in the file is found, one only here is not
        return made

    def verify(self) -> Verification:
        """Compute every root and the chain anew, and compare with the file. Writes nothing."""
        with self._log.database.read() as connection:
            stored = [_to_seal(row) for row in connection.execute(select(seals).order_by(seals.c.number))]
            faults = [*_chain_faults(stored), *(fault for seal in stored for fault in _event_faults(connection, seal))]
            sealed_to = stored[-1].last_seq if stored else 0
            unsealed = connection.execute(select(func.count()).where(events.c.seq > sealed_to)).scalar() or 0
        known = None if self._anchor is None or not self._anchor.exists() else self._anchor
        if known is not None:
            faults += _anchor_faults(stored, known)
        elif self._anchor is not None and stored:
            faults.append(SealFault("anchor_unreadable"))
        covered = sum(seal.count for seal in stored)
        return Verification(len(stored), covered, unsealed, None if known is None else str(known), tuple(faults))

    def _append(self, seal: Seal) -> None:
        if self._anchor is None:
            return
        descriptor = os.open(self._anchor, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(compact_json(asdict(seal)) + "\n")
            stream.flush()
            os.fsync(descriptor)


class MerkleTree:
    """A Merkle tree that grows: the roots of its full subtrees, largest first (RFC 6962, section 2.1)."""

    def __init__(self) -> None:
        self.count = 0
        self._peaks: list[tuple[int, bytes]] = []

    def add(self, leaf: bytes) -> None:
        """Append a leaf's hash."""
        height, node = 0, leaf
        while self._peaks and self._peaks[-1][0] == height:
            _, left = self._peaks.pop()
            height, node = height + 1, _node(left, node)
        self._peaks.append((height, node))
        self.count += 1

    def root(self) -> str:
        """The root over all leaves so far, at least one, in hexadecimal."""
        node = self._peaks[-1][1]
        for _, left in reversed(self._peaks[:-1]):
            node = _node(left, node)
        return node.hex()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _leaf(row: Row[Any]) -> bytes:
    """Every column of the event, in the table's order."""
    values = [bool(value) if name == "audit" else value for name, value in row._mapping.items()]
    return hashlib.sha256(b"\x00" + compact_json(values).encode()).digest()


def _rows(connection: Connection, after: int, to: int | None) -> Iterator[Row[Any]]:
    """Events by sequence number, a batch at a time."""
    while True:
        query = select(events).where(events.c.seq > after).order_by(events.c.seq).limit(BATCH)
        batch = connection.execute(query if to is None else query.where(events.c.seq <= to)).all()
        yield from batch
        if len(batch) < BATCH:
            return
        after = batch[-1].seq


def _last(connection: Connection) -> Seal | None:
    row = connection.execute(select(seals).order_by(seals.c.number.desc()).limit(1)).first()
    return None if row is None else _to_seal(row)


def _event_faults(connection: Connection, seal: Seal) -> Iterator[SealFault]:
    tree = MerkleTree()
    for row in _rows(connection, seal.first_seq - 1, seal.last_seq):
        tree.add(_leaf(row))
    if tree.count != seal.count or tree.root() != seal.root:
        yield SealFault("events_differ", seal.number, seal.first_seq, seal.last_seq)


def _chain_faults(stored: Iterable[Seal]) -> Iterator[SealFault]:
    number, previous, next_seq = 1, GENESIS, 1
    for seal in stored:
        while number < seal.number:
            yield SealFault("seal_missing", number)
            number, previous, next_seq = number + 1, seal.previous, seal.first_seq
        if seal.digest != seal.computed() or seal.previous != previous or seal.first_seq != next_seq:
            yield SealFault("seal_differs", seal.number, seal.first_seq, seal.last_seq)
        number, previous, next_seq = seal.number + 1, seal.digest, seal.last_seq + 1


def _anchor_faults(stored: Sequence[Seal], anchor: Path) -> Iterator[SealFault]:
    try:
        lines = [json.loads(line) for line in anchor.read_text(encoding="utf-8").splitlines() if line.strip()]
        written = {line["number"]: line["digest"] for line in lines}
    except (OSError, ValueError, KeyError, TypeError):
        yield SealFault("anchor_unreadable")
        return
    known = {seal.number: seal for seal in stored}
    for number in sorted(written.keys() - known.keys()):
        yield SealFault("seal_missing", number)  # a tail was cut off, or the seal was never committed
    for number, seal in known.items():
        if written.get(number) != seal.digest:
            yield SealFault("anchor_differs", number, seal.first_seq, seal.last_seq)


def _to_seal(row: Row[Any]) -> Seal:
    names = ("number", "first_seq", "last_seq", "count", "root", "previous", "sealed_at", "digest")
    return Seal(**{name: row._mapping[name] for name in names})
