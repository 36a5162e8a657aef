"""Seals find what was changed in the log (R4, ruling 12.30)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kit import OpenApp, at_once, execute, rows, turn

from prowess import Prowess
from prowess.events.seals import MerkleTree


@pytest.fixture
def anchor(tmp_path: Path) -> Path:
    return tmp_path / "outside" / "log.seals"


@pytest.fixture
def app(open_app: OpenApp, anchor: Path) -> Prowess:
    anchor.parent.mkdir()
    app = open_app(seals=anchor)
    for number in range(3):
        turn(app, f"m{number}", "hello")
        app.seal_log()
    turn(app, "later", "hello")
    return app


def kinds(app: Prowess) -> list[tuple[str, int | None]]:
    return [(fault.kind, fault.seal) for fault in app.verify_log().faults]


def test_r4_an_untouched_log_verifies_and_says_what_it_cannot(app: Prowess, anchor: Path) -> None:
    found = app.verify_log()
    assert (found.ok, found.seals, found.anchor) == (True, 3, str(anchor))
    assert found.events + found.unsealed == len(app.events(limit=10_000))
    assert found.unsealed == 2  # the last turn's
    assert app.seal_log() is not None
    assert app.verify_log().unsealed == 0
    assert app.seal_log() is None
    assert len(anchor.read_text().splitlines()) == 4


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE events SET actor_id = 'somebody' WHERE seq = 4",
        "UPDATE events SET decision = 'allowed' WHERE seq = 4",
        "UPDATE events SET data = '{\"x\": 1}' WHERE seq = 4",
        "UPDATE events SET at = at + 1 WHERE seq = 4",
        "UPDATE events SET audit = NOT audit WHERE seq = 4",
        "DELETE FROM events WHERE seq = 4",
    ],
)
def test_r4_an_edited_or_deleted_event_is_found(app: Prowess, tampering: str) -> None:
    execute(app._parts.database.url.render_as_string(hide_password=False), tampering)
    (fault,) = app.verify_log().faults
    assert fault.kind == "events_differ"
    assert fault.first_seq is not None
    assert fault.last_seq is not None
    assert fault.first_seq <= 4 <= fault.last_seq


def test_r4_an_event_slipped_in_is_found(app: Prowess, url: str) -> None:
    columns = "tenant, type, at, actor_kind, actor_id, data, audit"
    execute(
        url,
        "DELETE FROM events WHERE seq = 4",
        f"INSERT INTO events (seq, {columns}) SELECT 4, {columns} FROM events WHERE seq = 3",
    )
    (seal,) = rows(url, "SELECT number FROM event_seals WHERE first_seq <= 4 AND last_seq >= 4")
    assert kinds(app) == [("events_differ", seal["number"])]


def test_r4_a_cut_tail_is_found_by_the_file_outside(app: Prowess, url: str, anchor: Path) -> None:
    last = rows(url, "SELECT first_seq FROM event_seals WHERE number = 3")[0]["first_seq"]
    execute(url, "DELETE FROM event_seals WHERE number = 3", f"DELETE FROM events WHERE seq >= {last}")
    assert kinds(app) == [("seal_missing", 3)]
    anchor.unlink()
    assert kinds(app) == [("anchor_unreadable", None)]


def test_r4_a_chain_that_was_written_anew_is_found_by_the_file(app: Prowess, url: str, open_app: OpenApp) -> None:
    execute(url, "UPDATE events SET actor_id = 'nobody' WHERE seq = 2", "DELETE FROM event_seals")
    rewritten = open_app(seals=Path(app._parts.seals._anchor or "").with_name("other.seals"))
    rewritten.seal_log()
    assert rewritten.verify_log().ok  # by itself it holds
    assert ("anchor_differs", 1) in kinds(app)


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE event_seals SET root = 'ab' WHERE number = 2",
        "UPDATE event_seals SET count = count + 1 WHERE number = 2",
        "UPDATE event_seals SET last_seq = last_seq - 1 WHERE number = 2",
        "UPDATE event_seals SET sealed_at = 0 WHERE number = 2",
        "UPDATE event_seals SET previous = digest WHERE number = 2",
        "DELETE FROM event_seals WHERE number = 2",
    ],
)
def test_r4_a_seal_that_was_changed_is_found(app: Prowess, url: str, tampering: str) -> None:
    execute(url, tampering)
    assert any(seal == 2 for _, seal in kinds(app))


def test_r4_a_file_that_cannot_be_read_is_said(app: Prowess, anchor: Path) -> None:
    anchor.write_text("not json\n")
    assert kinds(app) == [("anchor_unreadable", None)]


def test_r4_sealers_and_writers_at_once(open_app: OpenApp, anchor: Path) -> None:
    anchor.parent.mkdir()
    apps = [open_app(seals=anchor) for _ in range(3)]
    jobs = [
        (lambda app=app, number=number: turn(app, f"m{number}", "hello", conversation=f"c{number}"))
        if number % 2
        else (lambda app=app: app.seal_log())
        for number, app in enumerate(apps * 6)
    ]
    assert [result for result in at_once(jobs) if isinstance(result, Exception)] == []
    apps[0].seal_log()
    found = apps[1].verify_log()
    assert (found.faults, found.unsealed) == ((), 0)


def test_r4_the_export_is_the_audit_log_in_order(app: Prowess) -> None:
    app.create_agent("nova")
    exported = list(app.export_log())
    assert exported == [event.to_json() for event in reversed(app.audit(limit=1000))]
    assert len(list(app.export_log(audit_only=False))) == len(app.events(limit=10_000))


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=40))
def test_r4_the_root_is_that_of_rfc_6962(leaves: list[bytes]) -> None:
    def root(part: list[bytes]) -> bytes:
        if len(part) == 1:
            return part[0]
        split = 1
        while split * 2 < len(part):
            split *= 2
        return hashlib.sha256(b"\x01" + root(part[:split]) + root(part[split:])).digest()

    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    assert tree.root() == root(leaves).hex()
