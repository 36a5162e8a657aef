"""Sixty-four threads at one session: nobody's answer is lost unseen, none counts twice (W3, W5, W6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.chaos.worker import FOREVER
from tests.support.consistency import assert_consistent
from tests.support.kit import ScriptedVoice, at_once, interview, rows, turn

import prowess
from prowess import Prowess, TurnResult
from prowess.errors import Conflict
from prowess.turns.sessions.model import Session

THREADS = 64


@pytest.fixture
def app(database_url: str) -> Iterator[Prowess]:
    """With a voice that is waited for: between the two commits of a turn others come in."""
    with prowess.open(database_url, skills=[interview(questions=FOREVER)], voice=ScriptedVoice()) as opened:
        yield opened


def check_losers(results: list[object]) -> list[TurnResult]:
    """Whoever got no result got a conflict."""
    won = [result for result in results if isinstance(result, TurnResult)]
    lost = [result for result in results if not isinstance(result, TurnResult)]
    assert [error for error in lost if not isinstance(error, Conflict) or error.code != "session_changed"] == []
    return won


def test_w5_w6_sixty_four_answers_at_once(app: Prowess, database_url: str) -> None:
    """Sixteen messages, each sent by four threads."""
    turn(app, "begin", "/interview")
    jobs = [lambda number=number % 16: turn(app, f"a{number}", f"answer {number}") for number in range(THREADS)]
    won = check_losers(at_once(jobs))
    by_message = {result.message_id: [r for r in won if r.message_id == result.message_id] for result in won}
    assert won
    for results in by_message.values():
        assert sum(not result.replayed for result in results) == 1
        assert len({(result.reply, result.run, result.session) for result in results}) == 1
    (session,) = app.sessions(user="u1")
    assert session.revision == 1 + len(by_message)
    assert Counter(session.state["answers"]) == Counter(f"answer {key[1:]}" for key in by_message)
    assert len(app.runs(user="u1", limit=1000)) == 1 + len(by_message)
    assert len(app.messages("c1", limit=1000)) == 2 + 2 * len(by_message)
    revisions = rows(database_url, "SELECT session_revision AS r FROM turns ORDER BY session_revision")
    assert [row["r"] for row in revisions] == list(range(1, 2 + len(by_message)))
    assert_consistent(database_url)


def test_w6_sixty_four_who_try_until_they_are_heard(app: Prowess, database_url: str) -> None:
    """A conflict is an invitation to look and send again; in the end every answer counts once."""
    turn(app, "begin", "/interview")

    def insist(number: int) -> int:
        for attempt in range(THREADS):
            try:
                result = turn(app, f"a{number}-{attempt}", f"answer {number}")
            except Conflict as error:
                assert error.code == "session_changed"
                continue
            assert not result.replayed
            return attempt
        raise AssertionError("never heard")

    results = at_once([lambda number=number: insist(number) for number in range(THREADS)])
    assert [result for result in results if not isinstance(result, int)] == []
    (session,) = app.sessions(user="u1")
    assert session.revision == 1 + THREADS
    assert Counter(session.state["answers"]) == Counter(f"answer {number}" for number in range(THREADS))
    assert len(app.runs(user="u1", limit=1000)) == 1 + THREADS
    assert_consistent(database_url)


def test_w6_w8_answers_and_cancellations_at_once(app: Prowess, database_url: str) -> None:
    session = turn(app, "begin", "/interview").session
    assert session is not None

    def cancel(number: int) -> object:
        """In the chat or by the API, until it is cancelled."""
        for attempt in range(THREADS):
            try:
                if number % 2:
                    return turn(app, f"x{number}-{attempt}", "/cancel-skill")
                return app.cancel_session(session.id, user="u1")
            except Conflict as error:
                if error.code == "session_not_live":
                    return None
        raise AssertionError("never heard")

    answers = [lambda number=number: turn(app, f"a{number}", f"answer {number}") for number in range(THREADS - 8)]
    results = at_once([*answers, *(lambda number=number: cancel(number) for number in range(8))])
    check_losers([result for result in results if result is not None and not isinstance(result, Session)])
    (ended,) = app.sessions(user="u1")
    assert ended.status == "cancelled"
    runs = app.runs(user="u1", limit=1000)
    assert sum(run.status == "cancelled" for run in runs) == 1
    assert len(runs) == ended.revision
    assert len(ended.state["answers"]) == ended.revision - 2
    tables = assert_consistent(database_url)
    assert sum(event["type"] == "session.cancelled" for event in tables["events"]) == 1
