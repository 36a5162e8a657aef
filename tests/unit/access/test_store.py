"""Grants as they come back from the table: whole, frozen, and no others than those asked for (G2)."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from prowess.access.model import Decision, Grant, GrantScope, GrantStatus
from prowess.access.store import active_grants, insert_grant, list_grants, revoke_grant
from prowess.db.engine import Database
from prowess.db.schema import migrate
from prowess.kernel.redaction import Redactor

NOW = datetime(2026, 3, 1, 8, 0, 0, 123_000, tzinfo=UTC)
FAR = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
PLAIN = Grant(
    "g1", "t1", "u1", "notes", "1.0.0", "memory:read", GrantScope.USER, None, None, GrantStatus.ACTIVE, NOW, "u1"
)
FULL = PLAIN._replace(
    id="g2", scope=GrantScope.AGENT, agent="mira", resource="https://h.example", granted_by="admin",
    expires_at=FAR,
)  # fmt: skip
OTHERS = [
    PLAIN._replace(id="g3", tenant="t2"),
    PLAIN._replace(id="g4", user="u2"),
    PLAIN._replace(id="g5", skill_id="note"),
]


@pytest.fixture
def database(tmp_path: Path) -> Any:
    made = Database(f"sqlite:///{tmp_path / 'p.db'}")
    migrate(made)
    with made.write() as connection:
        for grant in (PLAIN, FULL, *OTHERS):
            insert_grant(connection, grant)
    yield made
    made.close()


@pytest.mark.parametrize("redactor", [None, Redactor(["in-no-grant-at-all"])], ids=["read", "redacting"])
def test_g2_grants_come_back_as_they_were_given(database: Database, redactor: Redactor | None) -> None:
    with database.read() if redactor is None else database.write(redactor) as connection:
        found = active_grants(connection, "t1", "u1", "notes")
        assert sorted(found, key=lambda grant: grant.id) == [PLAIN, FULL]
        assert sorted(list_grants(connection, "t1", "u1"), key=lambda grant: grant.id) == [PLAIN, FULL, OTHERS[2]]
        assert active_grants(connection, "t1", "u1", "Notes") == ()


def test_g4_a_revoked_grant_is_gone_at_once(database: Database) -> None:
    with database.write() as connection:
        assert revoke_grant(connection, "g1", 1)
        assert [grant.id for grant in active_grants(connection, "t1", "u1", "notes")] == ["g2"]


def test_g2_a_grant_that_was_read_is_a_grant_like_any_other(database: Database) -> None:
    with database.read() as connection:
        (read,) = (grant for grant in active_grants(connection, "t1", "u1", "notes") if grant.id == "g2")
    assert type(read) is Grant
    assert (hash(read), repr(read)) == (hash(FULL), repr(FULL))
    assert read._replace(id="g9") == FULL._replace(id="g9")
    assert pickle.loads(pickle.dumps(read)) == FULL
    changed: Any = read
    with pytest.raises(AttributeError):
        changed.status = GrantStatus.REVOKED
    assert read.expires_at == FAR
    assert read.granted_at - NOW == timedelta(0)


def test_g3_a_decision_cannot_be_changed() -> None:
    made: Any = Decision("allow", None)
    with pytest.raises(AttributeError):
        made.effect = "deny"
