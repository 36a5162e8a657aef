"""Agents, conversations, groups: who may enter, and what is made on first use (U2, T7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.kit import AGENT, OpenApp, at_once, everything, interview, manual, rows, turn

from prowess import Prowess
from prowess.errors import Conflict, InvalidInput, NotFound, ProwessError
from prowess.kernel.clock import ManualClock


def refusal(app: Prowess, message_id: str = "m9", **changed: Any) -> str:
    with pytest.raises(ProwessError) as refused:
        turn(app, message_id, "hello", **changed)
    return refused.value.code


def said(app: Prowess, **where: Any) -> list[tuple[str, str, str]]:
    return [(message.author_kind, message.author, message.text) for message in app.messages(**where)]


# --- on first use ----------------------------------------------------------------------------------------------------


def test_t1_agent_and_conversation_are_made_with_the_first_turn(app: Prowess, clock: ManualClock) -> None:
    result = turn(app, "m1", "hello")
    assert result.events == ("agent.created", "conversation.created", "turn.started", "turn.completed")
    (agent,) = app.agents()
    assert (agent.id, agent.name, agent.owner, agent.language, agent.created_at) == (
        AGENT,
        "Mira",
        None,
        "en",
        clock.now(),
    )
    (conversation,) = app.conversations(user="u1")
    assert (conversation.user, conversation.agent, conversation.message_count) == ("u1", AGENT, 2)
    assert conversation.last_message_at == clock.now()
    assert said(app, conversation="c1") == [("user", "u1", "hello"), ("agent", AGENT, "plain")]


def test_t1_where_that_is_not_wanted_nothing_is_made(open_app: OpenApp, url: str) -> None:
    app = open_app(create_missing=False)
    assert refusal(app) == "agent_not_found"
    app.create_agent(AGENT)
    before = everything(url)
    assert refusal(app) == "chat_not_found"
    assert refusal(app, group="g1") == "chat_not_found"
    assert everything(url) == before


def test_messages_point_at_what_they_answer_and_at_the_skill(open_app: OpenApp) -> None:
    app = open_app(interview(), manual("notes"))
    first = turn(app, "m1", "/interview")
    turn(app, "m2", "/notes")
    asked, question, _, note = app.messages("c1")
    assert first.run is not None
    assert first.session is not None
    assert (asked.run_id, asked.session_id, asked.reply_to) == (None, None, None)
    assert (question.reply_to, question.run_id, question.session_id) == ("m1", first.run.id, first.session.id)
    assert (note.reply_to, note.session_id) == ("m2", None)
    assert question.id.startswith("msg-")


def test_conversations_and_messages_are_listed_from_the_latest(app: Prowess, clock: ManualClock) -> None:
    for number, conversation in enumerate(["a", "b", "a"]):
        clock.advance(timedelta(minutes=1))
        turn(app, f"m{number}", f"words {number}", conversation=conversation)
    assert [conversation.ref.id for conversation in app.conversations(user="u1")] == ["a", "b"]
    assert [message.text for message in app.messages("a", limit=3)] == ["plain", "words 2", "plain"]
    assert app.conversations(user="u2") == []


# --- whose it is -----------------------------------------------------------------------------------------------------


def test_u2_nobody_speaks_in_another_users_conversation(app: Prowess, url: str) -> None:
    turn(app, "m1", "my secret")
    before = everything(url)
    for agent in (AGENT, "nova", "an agent that nobody made"):
        assert refusal(app, user="u2", agent=agent) == "chat_not_found"
    assert everything(url) == before


def test_u2_a_conversation_belongs_to_one_agent(app: Prowess, url: str) -> None:
    turn(app, "m1", "hello")
    app.create_agent("nova")
    before = everything(url)
    assert refusal(app, agent="nova") == "chat_not_found"
    assert refusal(app, agent="brand-new") == "chat_not_found"
    assert everything(url) == before


def test_u2_a_seat_is_taken_only_where_it_is_still_free(
    app: Prowess, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else makes the conversation, and an agent of their own, between reading and writing."""
    chat = app._parts.chat
    find_seat = chat.find_seat

    def late(*given: Any) -> Any:
        seat = find_seat(*given)
        monkeypatch.undo()
        turn(app, "m1", "my secret", user="u2", agent="nova")
        return seat

    monkeypatch.setattr(chat, "find_seat", late)
    assert refusal(app, "m2", agent="luna") == "chat_not_found"
    assert {message.author for message in app.messages("c1")} == {"u2", "nova"}
    assert rows(url, "SELECT id FROM agents") == [{"id": "nova"}]


def test_u2_an_agent_of_somebody_else_is_not_there(app: Prowess, url: str) -> None:
    app.create_agent("nova", owner="u2")
    before = everything(url)
    with pytest.raises(NotFound) as owned:
        turn(app, "m1", "hello", agent="nova")
    assert everything(url) == before
    assert owned.value.to_json()["error"]["detail"] == {"agent": "nova"}
    assert turn(app, "m1", "hello", agent="nova", user="u2").reply == "plain"


def test_u2_messages_are_shown_to_their_user(app: Prowess) -> None:
    turn(app, "m1", "hello")
    turn(app, "m1", "hello", group="g1")
    assert len(app.messages("c1", user="u1")) == len(app.messages(group="g1", user="u1")) == 2
    for where in ({"conversation": "c1"}, {"group": "g1"}, {"conversation": "ghost"}):
        with pytest.raises(NotFound) as refused:
            app.messages(**where, user="u2")
        assert refused.value.code == "chat_not_found"


def test_tenants_share_nothing(open_app: OpenApp) -> None:
    app = open_app(interview())
    first = turn(app, "m1", "/interview")
    other = turn(app, "m1", "/interview", tenant="t2")
    assert not other.replayed
    assert first.session is not None
    assert other.session is not None
    assert other.session.id != first.session.id
    assert other.events[:2] == ("agent.created", "conversation.created")
    assert len(app.messages("c1")) == len(app.messages("c1", tenant="t2")) == 2
    for tenant, session in (("default", first.session), ("t2", other.session)):
        assert [item.id for item in app.sessions(user="u1", tenant=tenant)] == [session.id]
        assert len(app.runs(user="u1", tenant=tenant)) == 1
        assert {event.tenant for event in app.events(tenant=tenant)} == {tenant}
    with pytest.raises(NotFound):
        app.cancel_session(first.session.id, user="u1", tenant="t2")
    assert app.messages("c1", tenant="t2")[0].text == "/interview"
    with pytest.raises(NotFound):
        app.messages("c1", tenant="t3")


# --- groups ----------------------------------------------------------------------------------------------------------


def test_t7_a_group_gathers_those_who_speak(app: Prowess) -> None:
    first = turn(app, "m1", "hello all", group="g1")
    second = turn(app, "m2", "hello too", group="g1", user="u2", agent="nova")
    assert first.events.count("group.member_added") == second.events.count("group.member_added") == 2
    assert "group.member_added" not in turn(app, "m3", "again", group="g1").events
    members = {
        (event.data["member_kind"], event.target) for event in app.events() if event.type == "group.member_added"
    }
    assert members == {("user", "u1"), ("agent", AGENT), ("user", "u2"), ("agent", "nova")}
    assert app.conversations(user="u1") == []


def test_t1_two_agents_of_a_group_answer_one_message(app: Prowess, url: str) -> None:
    first = turn(app, "m1", "hello all", group="g1")
    second = turn(app, "m1", "hello all", group="g1", agent="nova")
    assert not first.replayed
    assert not second.replayed
    assert said(app, group="g1") == [("user", "u1", "hello all"), ("agent", AGENT, "plain"), ("agent", "nova", "plain")]
    assert rows(url, "SELECT message_count FROM conversations WHERE kind = 'group'") == [{"message_count": 3}]
    assert turn(app, "m1", "hello all", group="g1").replayed
    assert turn(app, "m1", "hello all", group="g1", agent="nova").replayed
    assert len(app.messages(group="g1")) == 3


def test_t1_agents_of_a_group_may_answer_at_the_same_moment(app: Prowess) -> None:
    agents = [f"agent-{number}" for number in range(6)]
    for attempt in ("first", "second"):  # at first they also join the group
        results = at_once(
            [lambda agent=agent: turn(app, attempt, "hello all", group="g1", agent=agent) for agent in agents]  # noqa: B023
        )
        assert [getattr(result, "reply", result) for result in results] == ["plain"] * 6
    assert len(app.messages(group="g1")) == 14


@pytest.mark.parametrize(
    "changed",
    [
        {"words": "other text"},
        {"user": "u2"},
        {"words": "other text", "agent": "nova"},
        {"user": "u2", "agent": "nova"},
    ],
    ids=["text", "user", "text-other-agent", "user-other-agent"],
)
def test_t1_a_message_id_stands_for_one_text_of_one_user(app: Prowess, url: str, changed: dict[str, str]) -> None:
    turn(app, "m1", "hello all", group="g1")
    changed = {"words": "hello all", **changed}
    before = {name: found for name, found in everything(url).items() if name in ("messages", "turns", "events")}
    with pytest.raises(Conflict) as refused:
        turn(app, "m1", changed.pop("words"), group="g1", **changed)
    assert refused.value.code == "message_id_reused"
    after = everything(url)
    assert {name: after[name] for name in before} == before


def test_t1_the_id_of_a_reply_is_no_id_for_a_message(app: Prowess) -> None:
    turn(app, "m1", "hello")
    turn(app, "m1", "hello", group="g1")
    for where in ({"conversation": "c1"}, {"group": "g1"}):
        reply = app.messages(**where)[-1]
        with pytest.raises(Conflict) as refused:
            turn(app, reply.id, reply.text, **where)
        assert refused.value.code == "message_id_reused"


def test_one_name_for_a_conversation_and_a_group_are_two_chats(app: Prowess) -> None:
    """G11: a pair, never a joined string."""
    turn(app, "m1", "to the agent", conversation="x")
    turn(app, "m1", "to the group", group="x")
    assert app.messages("x")[0].text == "to the agent"
    assert app.messages(group="x")[0].text == "to the group"


# --- agents ----------------------------------------------------------------------------------------------------------


def test_agents_are_made_once(app: Prowess) -> None:
    made = app.create_agent("nova", name="Nova Prime", persona="Dry wit.\nShort.", language="zh", owner="u1")
    assert app.agents() == [made]
    with pytest.raises(Conflict) as refused:
        app.create_agent("nova")
    assert refused.value.code == "agent_exists"
    assert app.agents(tenant="t2") == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"agent": ""}, "bad_id"),
        ({"agent": "nova", "language": "fr"}, "unknown_language"),
        ({"agent": "nova", "persona": "\x00"}, "control_character"),
        ({"agent": "nova", "persona": "x" * 8_001}, "text_too_long"),
    ],
    ids=["id", "language", "control", "long"],
)
def test_agents_that_cannot_be(app: Prowess, fields: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.create_agent(**fields)
    assert refused.value.code == code
    assert app.agents() == []


def test_of_many_that_make_one_agent_one_succeeds(app: Prowess) -> None:
    made = at_once([lambda: app.create_agent("nova")] * 6)
    assert sorted(getattr(item, "code", "made") for item in made) == ["agent_exists"] * 5 + ["made"]
    assert [event.type for event in app.events()] == ["agent.created"]


def test_first_messages_at_the_same_moment_all_arrive(app: Prowess, url: str) -> None:
    """Making the agent and the conversation is nobody's conflict."""
    texts = [f"hello {number}" for number in range(8)]
    same_chat = at_once([lambda text=text: turn(app, f"id-{text}", text) for text in texts])
    assert [getattr(result, "reply", result) for result in same_chat] == ["plain"] * 8
    other_chats = at_once(
        [lambda text=text: turn(app, "m", text, agent="nova", user=f"user {text}", conversation=text) for text in texts]
    )
    assert [getattr(result, "reply", result) for result in other_chats] == ["plain"] * 8
    assert rows(url, "SELECT message_count FROM conversations WHERE id = 'c1'") == [{"message_count": 16}]
    assert len(app.messages("c1")) == 16
