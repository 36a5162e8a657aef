"""Workflow sessions against a small reference model: whatever a user does, in any order (W3–W9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import func, select
from tests.support.kit import ScriptedVoice, interview, turn

import prowess
from prowess import TurnResult
from prowess.errors import Conflict, LimitExceeded
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds
from prowess.skills.catalog import CatalogService
from prowess.turns.executor import MAX_PARKED
from prowess.turns.runs import runs
from prowess.turns.sessions.model import Session
from prowess.turns.sessions.store import list_sessions

TTL = timedelta(days=14)
QUESTIONS = {"long": 3, "short": 1}
DEFINITIONS = {skill: interview(skill, questions=count, ttl=TTL) for skill, count in QUESTIONS.items()}
STEPS = [
    *["answer"] * 6,
    *["start"] * 4,
    *["replay"] * 3,
    *["resume"] * 3,
    *["pause"] * 2,
    *["wait"] * 2,
    "cancel",
    "cancel_by_id",
    "look",
    "switch",
    "remove",
]


@dataclass
class Model:
    """What a session should be."""

    skill: str
    chat: str
    expires: datetime
    answers: list[str] = field(default_factory=list)
    status: str = "waiting_user"
    revision: int = 1
    parked: bool = False

    @property
    def live(self) -> bool:
        return self.status == "waiting_user"


class Sessions(RuleBasedStateMachine):
    """Two chats of one user, two workflows, one clock. One rule, so that no kind of step is left out for long."""

    @initialize()
    def open(self) -> None:
        self.clock = ManualClock(datetime(2026, 3, 1, 8, 0, tzinfo=UTC))
        self.app = prowess.open(
            "sqlite://",
            clock=self.clock,
            ids=SequentialIds(),
            skills=list(DEFINITIONS.values()),
            voice=ScriptedVoice(instant=True),
        )
        self.complete_catalog = self.app._parts.catalog
        self.reduced_catalog = CatalogService([DEFINITIONS["long"]], self.complete_catalog._from_stored)
        self.reduced = False
        self.disabled: set[str] = set()
        self.model: dict[str, Model] = {}
        self.place: dict[str, str | None] = {"c1": None, "c2": None}
        self.stack: dict[str, list[str]] = {"c1": [], "c2": []}
        self.said: list[tuple[str, str, str, TurnResult]] = []
        self.runs = 0
        self.number = 0
        self.seen: dict[str, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "app"):
            self.app.close()

    @rule(
        step=st.sampled_from(STEPS),
        chat=st.sampled_from(["c1", "c1", "c1", "c2"]),
        skill=st.sampled_from(sorted(QUESTIONS)),
        number=st.integers(0, 1000),
    )
    def act(self, step: str, chat: str, skill: str, number: int) -> None:
        if step in ("start", "switch"):
            getattr(self, step)(chat, skill)
        elif step in ("answer", "pause", "resume"):
            getattr(self, step)(chat)
        else:
            getattr(self, step)(chat, number)

    # --- what a user does ---

    def say(self, chat: str, words: str) -> TurnResult:
        self.clock.advance(timedelta(seconds=1))
        self.pass_time(chat)
        self.number += 1
        message_id = f"m{self.number}"
        result = turn(self.app, message_id, words, conversation=chat)
        self.said.append((chat, message_id, words, result))
        return result

    def start(self, chat: str, skill: str) -> None:
        served = skill not in self.disabled and (skill == "long" or not self.reduced)
        if served and self.is_full(chat):
            self.is_refused(chat, f"/{skill}")
            return
        result = self.say(chat, f"/{skill}")
        if not served:
            assert result.session is None
            return
        assert result.session is not None
        assert (result.session.revision, result.session.status) == (1, "waiting_user")
        current = self.place[chat]
        if current is not None:
            self.set_aside(current)
        self.model[result.session.id] = Model(skill, chat, self.clock.now() + TTL)
        self.place[chat] = result.session.id
        self.runs += 1

    def answer(self, chat: str) -> None:
        words = f"answer {self.number}"
        result = self.say(chat, words)
        current = self.place[chat]
        if current is None:
            assert (result.session, result.reply) == (None, "plain")
            return
        session = self.model[current]
        session.revision += 1
        self.runs += 1
        if self.reduced and session.skill == "short":
            session.status = "failed"
        else:
            session.answers.append(words)
            session.expires = self.clock.now() + TTL
            if len(session.answers) == QUESTIONS[session.skill]:
                session.status = "completed"
        if not session.live:
            self.place[chat] = None
        assert result.session is not None
        assert (result.session.id, result.session.status) == (current, session.status)

    def cancel(self, chat: str, number: int) -> None:
        result = self.say(chat, ["/cancel-skill", "取消当前规划", "cancel the plan"][number % 3])
        current = self.place[chat]
        assert (result.session and result.session.id) == current
        if current is not None:
            self.end(current, "cancelled")
            self.runs += 1

    def pause(self, chat: str) -> None:
        if self.is_full(chat):
            self.is_refused(chat, "/pause-skill")
            return
        result = self.say(chat, "/pause-skill")
        current = self.place[chat]
        assert (result.session and result.session.id) == current
        if current is not None:
            self.set_aside(current)

    def resume(self, chat: str) -> None:
        result = self.say(chat, "/resume-skill")
        if self.place[chat] is not None or not self.stack[chat]:
            assert result.session is None
            return
        latest = self.stack[chat].pop()
        self.model[latest].revision += 1
        self.model[latest].parked = False
        self.place[chat] = latest
        assert (result.session and result.session.id) == latest

    def cancel_by_id(self, _chat: str, number: int) -> None:
        if not self.model:
            return
        chosen = sorted(self.model)[number % len(self.model)]
        self.pass_time("c1", "c2")
        if self.model[chosen].live:
            assert self.app.cancel_session(chosen, user="u1").status == "cancelled"
            self.end(chosen, "cancelled")
            self.runs += 1
            return
        with pytest.raises(Conflict) as refused:
            self.app.cancel_session(chosen, user="u1")
        assert refused.value.code == "session_not_live"

    def replay(self, _chat: str, number: int) -> None:
        if not self.said:
            return
        chat, message_id, words, first = self.said[number % len(self.said)]
        before = self.stored()
        again = turn(self.app, message_id, words, conversation=chat)
        assert again.replayed
        assert (again.reply, again.session, again.run) == (first.reply, first.session, first.run)
        assert again.instruction == first.instruction
        assert self.stored() == before

    # --- what happens around ---

    def wait(self, _chat: str, number: int) -> None:
        self.clock.advance(timedelta(days=[0.01, 1, 6, 13, 14, 20][number % 6]))

    def look(self, _chat: str, _number: int) -> None:
        self.pass_time("c1", "c2")
        shown = {session.id: str(session.status) for session in self.app.sessions(user="u1", limit=1000)}
        assert shown == {key: session.status for key, session in self.model.items()}

    def switch(self, _chat: str, skill: str) -> None:
        self.app.bind_skill(skill, user="u1", enabled=skill in self.disabled)
        self.disabled ^= {skill}

    def remove(self, _chat: str, _number: int) -> None:
        """The version of ``short`` is taken from the program, or comes back."""
        self.reduced = not self.reduced
        self.app._parts.engine._reader._catalog = self.reduced_catalog if self.reduced else self.complete_catalog

    # --- the model ---

    def is_full(self, chat: str) -> bool:
        """Whether a full stack and the place in front of it outlast the next second."""
        held = [self.place[chat], *self.stack[chat]]
        soon = self.clock.now() + timedelta(seconds=1)
        return len(held) > MAX_PARKED and all(key is not None and self.model[key].expires > soon for key in held)

    def is_refused(self, chat: str, words: str) -> None:
        with pytest.raises(LimitExceeded):
            self.say(chat, words)

    def pass_time(self, *chats: str) -> None:
        for key, session in self.model.items():
            if session.live and session.chat in chats and session.expires <= self.clock.now():
                self.end(key, "expired")

    def end(self, key: str, status: str) -> None:
        session = self.model[key]
        session.status = status
        session.revision += 1
        if session.parked:
            self.stack[session.chat].remove(key)
        else:
            self.place[session.chat] = None

    def set_aside(self, key: str) -> None:
        session = self.model[key]
        session.revision += 1
        session.parked = True
        self.place[session.chat] = None
        self.stack[session.chat].append(key)

    # --- what must hold ---

    def stored(self) -> list[Session]:
        """As it stands in the table: looking there does not expire anything."""
        with self.app._parts.database.read() as connection:
            return list_sessions(connection, "default", "u1", live_only=False, limit=1000)

    @invariant()
    def the_tables_equal_the_model(self) -> None:
        if not hasattr(self, "app"):
            return
        stored = self.stored()
        found = {session.id: session for session in stored}
        assert found.keys() == self.model.keys()
        places = [session.chat for session in stored if session.live and session.parked_at is None]
        assert len(places) == len(set(places))
        for key, session in found.items():
            before = self.seen.get(key, 0)
            assert before <= session.revision <= before + 2  # one for this step, one where it was found expired
            self.seen[key] = session.revision
            self.equals(session, self.model[key])
        with self.app._parts.database.read() as connection:
            assert connection.execute(select(func.count()).select_from(runs)).scalar_one() == self.runs

    def equals(self, session: Session, model: Model) -> None:
        if session.live and session.expires_at <= self.clock.now():
            assert model.status in ("waiting_user", "expired")  # marked when somebody next looks (W7)
            return
        assert (str(session.status), session.revision) == (model.status, model.revision)
        assert session.state == {"answers": model.answers}
        assert (session.live and session.parked_at is not None) == (model.live and model.parked)
        assert session.expires_at == model.expires
        assert (session.pending_question is not None) == model.live


@pytest.mark.timeout(600)  # when it fails, hypothesis takes its time to shorten the example
def test_w3_w4_w5_w6_w7_w8_w9_sessions_keep_to_the_model() -> None:
    run_state_machine_as_test(Sessions, settings=settings(max_examples=25, stateful_step_count=50))
