"""Workflow sessions against a small reference model: whatever a user does, in any order (W3–W9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.kit import ScriptedVoice, interview, turn

import prowess
from prowess import TurnResult
from prowess.errors import Conflict, LimitExceeded
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds
from prowess.skills.catalog import CatalogService
from prowess.turns.sessions.model import Session
from prowess.turns.sessions.store import list_sessions

TTL = timedelta(days=14)
STACK = 5
QUESTIONS = {"long": 3, "short": 1}
DEFINITIONS = {skill: interview(skill, questions=count, ttl=TTL) for skill, count in QUESTIONS.items()}

chats = st.sampled_from(["c1", "c1", "c1", "c2"])
skills = st.sampled_from(sorted(QUESTIONS))
ways_to_cancel = st.sampled_from(["/cancel-skill", "取消当前规划", "cancel the plan"])


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
    """Two chats of one user, two workflows, one clock."""

    messages = Bundle("messages")

    def __init__(self) -> None:
        super().__init__()
        self.reduced = False
        self.clock = ManualClock(datetime(2026, 3, 1, 8, 0, tzinfo=UTC))
        self.model: dict[str, Model] = {}
        self.place: dict[str, str | None] = {"c1": None, "c2": None}
        self.stack: dict[str, list[str]] = {"c1": [], "c2": []}
        self.disabled: set[str] = set()
        self.runs = 0
        self.said = 0
        self.seen: dict[str, int] = {}

    @initialize()
    def open(self) -> None:
        self.app = prowess.open(
            "sqlite://",
            clock=self.clock,
            ids=SequentialIds(),
            skills=list(DEFINITIONS.values()),
            voice=ScriptedVoice(instant=True),
        )
        self.complete_catalog = self.app._parts.catalog
        self.reduced_catalog = CatalogService([DEFINITIONS["long"]], self.complete_catalog._from_stored)

    def teardown(self) -> None:
        if hasattr(self, "app"):
            self.app.close()

    # --- what a user does ---

    def say(self, chat: str, words: str) -> TurnResult:
        self.clock.advance(timedelta(seconds=1))
        self.pass_time(chat)
        self.said += 1
        return turn(self.app, f"m{self.said}", words, conversation=chat)

    def message(self, chat: str, words: str, result: TurnResult) -> Any:
        return multiple((chat, f"m{self.said}", words, result))

    @rule(target=messages, chat=chats, skill=skills)
    def start(self, chat: str, skill: str) -> Any:
        words = f"/{skill}"
        blocked = len(self.stack[chat]) >= STACK and self.live(chat) is not None
        served = skill not in self.disabled and (skill == "long" or not self.reduced)
        if blocked and served and self.would_still_be_live(chat):
            try:
                self.say(chat, words)
            except LimitExceeded:
                return multiple()
            raise AssertionError("a sixth task was set aside")
        result = self.say(chat, words)
        if not served:
            assert result.session is None
            return self.message(chat, words, result)
        assert result.session is not None
        if (current := self.live(chat)) is not None:
            self.set_aside(chat, current)
        self.model[result.session.id] = Model(skill, chat, self.clock.now() + TTL)
        self.place[chat] = result.session.id
        self.runs += 1
        assert (result.session.revision, result.session.status) == (1, "waiting_user")
        return self.message(chat, words, result)

    @rule(target=messages, chat=chats, count=st.integers(1, 4))
    def answer(self, chat: str, count: int) -> Any:
        return multiple(*(self.answer_once(chat) for _ in range(count)))

    def answer_once(self, chat: str) -> Any:
        words = f"answer {self.said}"
        result = self.say(chat, words)
        current = self.live(chat)
        if current is None:
            assert (result.session, result.reply) == (None, "plain")
            return chat, f"m{self.said}", words, result
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
        return chat, f"m{self.said}", words, result

    @rule(target=messages, chat=chats, words=ways_to_cancel)
    def cancel(self, chat: str, words: str) -> Any:
        result = self.say(chat, words)
        current = self.live(chat)
        assert (result.session and result.session.id) == current
        if current is not None:
            self.end(current, "cancelled")
        return self.message(chat, words, result)

    @rule(target=messages, chat=chats)
    def pause(self, chat: str) -> Any:
        words = "/pause-skill"
        if len(self.stack[chat]) >= STACK and self.would_still_be_live(chat):
            try:
                self.say(chat, words)
            except LimitExceeded:
                return multiple()
            raise AssertionError("a sixth task was set aside")
        result = self.say(chat, words)
        current = self.live(chat)
        assert (result.session and result.session.id) == current
        if current is not None:
            self.set_aside(chat, current)
        return self.message(chat, words, result)

    @rule(target=messages, chat=chats)
    def resume(self, chat: str) -> Any:
        words = "/resume-skill"
        result = self.say(chat, words)
        if self.live(chat) is not None or not self.stack[chat]:
            assert result.session is None
        else:
            latest = self.stack[chat].pop()
            session = self.model[latest]
            session.revision += 1
            session.parked = False
            self.place[chat] = latest
            assert (result.session and result.session.id) == latest
        return self.message(chat, words, result)

    @rule(chat=chats, data=st.data())
    def cancel_by_id(self, chat: str, data: st.DataObject) -> None:
        mine = sorted(key for key, session in self.model.items() if session.chat == chat)
        if not mine:
            return
        chosen = data.draw(st.sampled_from(mine))
        self.pass_time("c1", "c2")
        session = self.model[chosen]
        if not session.live:
            try:
                self.app.cancel_session(chosen, user="u1")
            except Conflict as error:
                assert error.code == "session_not_live"
                return
            raise AssertionError("an ended session was cancelled")
        assert self.app.cancel_session(chosen, user="u1").status == "cancelled"
        self.end(chosen, "cancelled")

    @rule(message=messages)
    def replay(self, message: Any) -> None:
        chat, message_id, words, first = message
        before = self.stored()
        again = turn(self.app, message_id, words, conversation=chat)
        assert again.replayed
        assert (again.reply, again.session, again.run, again.instruction) == (
            first.reply,
            first.session,
            first.run,
            first.instruction,
        )
        assert self.stored() == before

    # --- what happens around ---

    @rule(days=st.sampled_from([0.01, 1, 6, 13, 14, 20]))
    def wait(self, days: float) -> None:
        self.clock.advance(timedelta(days=days))

    @rule()
    def look(self) -> None:
        self.pass_time("c1", "c2")
        shown = {session.id: str(session.status) for session in self.app.sessions(user="u1", limit=1000)}
        assert shown == {key: session.status for key, session in self.model.items()}

    @rule(skill=skills)
    def switch(self, skill: str) -> None:
        self.app.bind_skill(skill, user="u1", enabled=skill in self.disabled)
        self.disabled ^= {skill}

    @rule()
    def remove_or_bring_back_a_version(self) -> None:
        self.reduced = not self.reduced
        self.app._parts.engine._reader._catalog = self.reduced_catalog if self.reduced else self.complete_catalog

    # --- the model ---

    def live(self, chat: str) -> str | None:
        return self.place[chat]

    def would_still_be_live(self, chat: str) -> bool:
        """Whether place and a full stack outlast the next second."""
        soon = self.clock.now() + timedelta(seconds=1)
        held = [self.place[chat], *self.stack[chat]]
        return all(key is not None and self.model[key].expires > soon for key in held)

    def pass_time(self, *of: str) -> None:
        for key, session in self.model.items():
            if session.live and session.chat in of and session.expires <= self.clock.now():
                self.end(key, "expired")
                self.runs -= 1  # nobody used the skill

    def end(self, key: str, status: str) -> None:
        session = self.model[key]
        session.status = status
        session.revision += 1
        self.runs += 1
        if session.parked:
            self.stack[session.chat].remove(key)
        else:
            self.place[session.chat] = None

    def set_aside(self, chat: str, key: str) -> None:
        session = self.model[key]
        session.revision += 1
        session.parked = True
        self.place[chat] = None
        self.stack[chat].append(key)

    # --- what must hold ---

    def stored(self) -> list[Session]:
        """As it stands in the table: looking does not expire anything."""
        with self.app._parts.database.read() as connection:
            return list_sessions(connection, "default", "u1", live_only=False, limit=1000)

    @precondition(lambda self: hasattr(self, "app"))
    @invariant()
    def the_table_equals_the_model(self) -> None:
        found = {session.id: session for session in self.stored()}
        assert found.keys() == self.model.keys()
        for key, session in found.items():
            model = self.model[key]
            if session.live and session.expires_at <= self.clock.now():
                assert model.status in ("waiting_user", "expired")
                continue
            assert (str(session.status), session.revision) == (model.status, model.revision)
            assert session.state == {"answers": model.answers}
            assert (session.live and session.parked_at is not None) == (model.live and model.parked)
            assert session.expires_at == model.expires
            assert (session.pending_question is not None) == model.live

    @precondition(lambda self: hasattr(self, "app"))
    @invariant()
    def one_live_session_a_chat(self) -> None:
        places = [session.chat for session in self.stored() if session.live and session.parked_at is None]
        assert len(places) == len(set(places))

    @precondition(lambda self: hasattr(self, "app"))
    @invariant()
    def revisions_grow_by_one(self) -> None:
        for session in self.stored():
            before = self.seen.get(session.id, 0)
            assert (
                before <= session.revision <= before + 6
            )  # a step holds up to four answers, and what it finds expired
            self.seen[session.id] = session.revision

    @precondition(lambda self: hasattr(self, "app"))
    @invariant()
    def a_run_for_every_use(self) -> None:
        assert len(self.app.runs(user="u1", limit=10_000)) == self.runs


def test_w3_w4_w5_w6_w7_w8_w9_sessions_keep_to_the_model() -> None:
    run_state_machine_as_test(Sessions, settings=settings(max_examples=100, stateful_step_count=50))
