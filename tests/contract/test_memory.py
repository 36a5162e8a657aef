"""What is remembered: layers, owners, and the person's rights over it (M1, M2, M4, C26)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert
from tests.support.kit import OpenApp, at_once, everything, places_of, recaller, rows, tool, turn

from prowess import Prowess
from prowess.db.engine import Database
from prowess.errors import InvalidInput, NotFound
from prowess.kernel.clock import ManualClock, to_ms
from prowess.memory.model import Memory, MemoryLayer
from prowess.memory.store import memories, memory_terms
from prowess.memory.terms import terms_of


def add(app: Prowess, text: str, importance: float = 0.5, **changed: Any) -> Memory:
    fields = {"user": "u1", "agent": "mira", **changed}
    return app.add_memory(fields.pop("user"), fields.pop("agent"), text, importance, **fields)


def recall(app: Prowess, query: str, *, layers: set[str] | None = None, limit: int = 6, **owner: str) -> list[str]:
    who = {"tenant": "default", "user": "u1", "agent": "mira", **owner}
    reader = app._parts.memory.reader(
        who["tenant"], who["user"], who["agent"], frozenset({"L2", "L3"} if layers is None else layers)
    )
    return [hit.memory.text for hit in reader.recall(query, limit)]


def texts(found: list[Memory]) -> list[str]:
    return [memory.text for memory in found]


# --- M4 --------------------------------------------------------------------------------------------------------------


def test_m4_a_person_sees_what_is_remembered(app: Prowess, clock: ManualClock) -> None:
    first = add(app, "likes green tea", 0.8)
    clock.advance(timedelta(hours=1))
    second = add(app, "住在杭州", agent="nova")
    assert app.memories(user="u1") == [second, first]
    assert app.memories(user="u1", agent="mira") == [first]
    assert app.memories(user="u1", limit=1) == [second]
    assert first.to_json() == {
        "id": first.id,
        "user": "u1",
        "agent": "mira",
        "layer": "L3",
        "text": "likes green tea",
        "importance": 0.8,
        "created_at": "2026-03-01T08:00:00.000Z",
        "updated_at": "2026-03-01T08:00:00.000Z",
        "expires_at": None,
        "revision": 1,
    }


def test_m4_correcting_replaces_text_and_terms(app: Prowess, url: str, clock: ManualClock) -> None:
    old = add(app, "allergic to peanuts", 0.9)
    clock.advance(timedelta(days=1))
    new = app.correct_memory(user="u1", memory_id=old.id, text="allergic to walnuts")
    assert (new.text, new.revision, new.importance, new.created_at, new.updated_at) == (
        "allergic to walnuts",
        2,
        0.9,
        old.created_at,
        clock.now(),
    )
    assert app.memories(user="u1") == [new]
    assert recall(app, "peanuts") == []
    assert recall(app, "walnuts") == ["allergic to walnuts"]
    assert places_of(url, "peanut") == set()
    assert app.correct_memory(user="u1", memory_id=old.id, text="allergic to nuts", importance=1).importance == 1.0


def test_m4_deleting_leaves_neither_text_nor_terms(app: Prowess, url: str) -> None:
    gone, kept = add(app, "secretly dislikes zebras"), add(app, "likes zebras at the zoo")
    app.delete_memory(user="u1", memory_id=gone.id)
    assert app.memories(user="u1") == [kept]
    assert places_of(url, "secretly") == places_of(url, "secret") == places_of(url, "dislike") == set()
    assert rows(url, "SELECT DISTINCT memory_id FROM memory_terms") == [{"memory_id": kept.id}]
    assert recall(app, "zebras") == ["likes zebras at the zoo"]
    with pytest.raises(NotFound) as refused:
        app.delete_memory(user="u1", memory_id=gone.id)
    assert refused.value.code == "memory_not_found"


def test_m4_exporting_gives_everything_and_is_audited(app: Prowess, clock: ManualClock) -> None:
    first = add(app, "likes green tea")
    clock.advance(timedelta(hours=1))
    second = add(app, "meets Tom on Friday", agent="nova", layer="L2")
    add(app, "somebody else's", user="u2")
    assert app.export_memories(user="u1") == [second.to_json(), first.to_json()]
    assert app.export_memories(user="u1", agent="mira") == [first.to_json()]
    events = app.audit(user="u1")[:2]
    assert [(event.type, event.agent, event.data) for event in events] == [
        ("memory.exported", "mira", {"count": 1}),
        ("memory.exported", None, {"count": 2}),
    ]


def test_m4_r3_every_change_is_audited_without_its_text(app: Prowess, url: str) -> None:
    memory = add(app, "canaryword one")
    app.correct_memory(user="u1", memory_id=memory.id, text="canaryword two")
    app.export_memories(user="u1")
    assert places_of(url, "canaryword") == {"memories.text", "memory_terms.term"}
    app.delete_memory(user="u1", memory_id=memory.id)
    assert places_of(url, "canaryword") == set()
    kinds = [event.type for event in reversed(app.audit())]
    assert kinds == ["memory.added", "memory.corrected", "memory.exported", "memory.deleted"]


def test_m4_nobody_touches_another_persons_memories(app: Prowess, url: str) -> None:
    memory = add(app, "likes green tea")
    before = everything(url)
    for owner in ({"user": "u2"}, {"user": "u1", "tenant": "t2"}):
        assert app.memories(**owner) == []
        assert recall(app, "green tea", **owner) == []
        with pytest.raises(NotFound):
            app.correct_memory(**owner, memory_id=memory.id, text="else")
        with pytest.raises(NotFound):
            app.delete_memory(**owner, memory_id=memory.id)
    assert everything(url) == before


def test_m4_of_two_who_correct_at_once_none_is_lost_unseen(app: Prowess) -> None:
    memory = add(app, "start")
    results = at_once(
        [
            lambda number=number: app.correct_memory(user="u1", memory_id=memory.id, text=f"number {number}")
            for number in range(6)
        ]
    )
    done = [result for result in results if isinstance(result, Memory)]
    assert {getattr(result, "code", "memory_changed") for result in results} == {"memory_changed"}
    (now,) = app.memories(user="u1")
    assert now.revision == 1 + len(done)
    assert now.text in {result.text for result in done}
    assert recall(app, now.text.split()[1]) == [now.text]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"text": ""}, "text_empty"),
        ({"text": "x" * 2_001}, "text_too_long"),
        ({"text": "a\x00"}, "control_character"),
        ({"importance": 1.1}, "bad_importance"),
        ({"importance": -0.1}, "bad_importance"),
        ({"importance": float("nan")}, "bad_importance"),
        ({"importance": True}, "bad_importance"),
        ({"importance": "high"}, "bad_importance"),
        ({"layer": "L1"}, "bad_layer"),
        ({"layer": "L4"}, "bad_layer"),
        ({"layer": "long"}, "bad_layer"),
        ({"user": ""}, "bad_id"),
        ({"agent": " "}, "bad_id"),
        ({"layer": "L2", "keep": timedelta(0)}, "bad_keep"),
        ({"layer": "L2", "keep": timedelta(days=-1)}, "bad_keep"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ascii(value)[-40:],
)
def test_m4_what_cannot_be_remembered(app: Prowess, url: str, fields: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        add(app, **{"text": "good", **fields})
    assert refused.value.code == code
    assert rows(url, "SELECT * FROM memories") == rows(url, "SELECT * FROM events") == []


# --- M1 --------------------------------------------------------------------------------------------------------------


def test_m1_short_term_memories_pass_and_long_term_ones_stay(app: Prowess, url: str, clock: ManualClock) -> None:
    short = add(app, "meets Tom on Friday", layer=MemoryLayer.L2)
    brief = add(app, "Tom calls at noon", layer="L2", keep=timedelta(hours=2))
    kept = add(app, "Tom is a friend")
    assert short.expires_at == clock.now() + timedelta(days=7)
    assert brief.expires_at == clock.now() + timedelta(hours=2)
    assert kept.expires_at is None

    clock.advance(timedelta(hours=2) - timedelta(milliseconds=1))
    assert len(recall(app, "Tom")) == 3
    clock.advance(timedelta(milliseconds=1))
    assert set(recall(app, "Tom")) == set(texts(app.memories(user="u1"))) == {short.text, kept.text}

    clock.advance(timedelta(days=7))
    assert recall(app, "Tom") == texts(app.memories(user="u1")) == [kept.text]
    assert [memory["text"] for memory in app.export_memories(user="u1")] == [kept.text]
    assert app._parts.memory.forget_expired() == 2
    assert app._parts.memory.forget_expired() == 0
    assert places_of(url, "friday") == places_of(url, "noon") == set()
    assert recall(app, "friend") == [kept.text]


def test_m1_an_expired_memory_cannot_be_corrected_back_to_life(app: Prowess, clock: ManualClock) -> None:
    short = add(app, "meets Tom on Friday", layer="L2")
    clock.advance(timedelta(days=7))
    with pytest.raises(NotFound) as refused:
        app.correct_memory(user="u1", memory_id=short.id, text="meets Tom on Monday")
    assert refused.value.code == "memory_not_found"


# --- M2 --------------------------------------------------------------------------------------------------------------


def test_m2_a_reader_sees_only_its_layers(app: Prowess) -> None:
    add(app, "tea today", layer="L2")
    add(app, "tea always")
    assert set(recall(app, "tea")) == {"tea today", "tea always"}
    assert recall(app, "tea", layers={"L2"}) == ["tea today"]
    assert recall(app, "tea", layers={"L3"}) == ["tea always"]
    assert recall(app, "tea", layers={"L1", "L4", "L5"}) == recall(app, "tea", layers=set()) == []


@pytest.mark.parametrize(("declared", "found"), [(["L2"], "tea today"), (["L3"], "tea always"), (["L4"], "nothing")])
def test_m2_a_skill_reads_the_layers_that_it_declared(open_app: OpenApp, declared: list[str], found: str) -> None:
    app = open_app(recaller(resources={"memory": {"read_layers": declared}}))
    app.grant(user="u1", skill="recaller", code="memory:read")
    add(app, "tea today", layer="L2")
    add(app, "tea always")
    assert turn(app, "m1", "/recaller tea").instruction == f"Say: {found}"


@pytest.mark.parametrize("missing", ["code", "layers", "grant"])
def test_m2_without_declaring_and_granting_both_there_is_no_reader(open_app: OpenApp, missing: str) -> None:
    contexts: list[Any] = []

    def look(context: Any, _question: Any) -> dict[str, str]:
        contexts.append(context.memories)
        return {"text": "done"}

    permissions = [("notes:read", "L1")] if missing == "code" else [("memory:read", "L1")]
    resources = {} if missing == "layers" else {"memory": {"read_layers": ["L3"]}}
    app = open_app(tool("look", look, permissions=permissions, resources=resources))
    if missing != "grant":
        app.grant(user="u1", skill="look", code=permissions[0][0])
    result = turn(app, "m1", "/look tea")
    assert result.run is not None
    if missing == "grant":
        assert (result.run.status, contexts) == ("denied", [])
    else:
        assert (result.run.status, contexts) == ("completed", [None])


def test_m2_x5_other_users_agents_and_tenants_are_never_seen(open_app: OpenApp) -> None:
    app = open_app(recaller())
    add(app, "tea mine")
    add(app, "tea of another user", user="u2")
    add(app, "tea of another agent", agent="nova")
    add(app, "tea of another tenant", tenant="t2")
    app.grant(user="u1", skill="recaller", code="memory:read")
    assert turn(app, "m1", "/recaller tea").instruction == "Say: tea mine"
    assert recall(app, "tea", agent="nova") == ["tea of another agent"]
    assert recall(app, "tea", tenant="t2") == ["tea of another tenant"]


# --- recall ----------------------------------------------------------------------------------------------------------


def test_x5_recall_ranks_by_matches_importance_recency(app: Prowess, clock: ManualClock) -> None:
    for text, importance in [
        ("tea", 1.0),
        ("green tea", 0.1),
        ("green tea leaves", 0.2),
        ("green", 0.5),
        ("tea pot", 0.5),
    ]:
        clock.advance(timedelta(minutes=1))
        add(app, text, importance)
    assert recall(app, "green tea") == ["green tea leaves", "green tea", "tea", "tea pot", "green"]
    assert recall(app, "green tea", limit=2) == ["green tea leaves", "green tea"]
    assert recall(app, "What do you remember about me?") == ["tea", "tea pot", "green", "green tea leaves", "green tea"]


def test_c24_a_question_that_nothing_answers_finds_nothing(app: Prowess) -> None:
    add(app, "green tea")
    add(app, "喜欢喝绿茶")
    for question in ("coffee", "咖啡怎么样", "？", "🦓", "Как дела", "..."):
        assert recall(app, question) == []


def test_x5_recall_works_in_both_languages(app: Prowess) -> None:
    add(app, "用户对花生过敏")
    add(app, "The user runs every morning")
    assert recall(app, "我对什么过敏？") == ["用户对花生过敏"]
    assert recall(app, "Do I run?") == ["The user runs every morning"]


NEWER = 10_000


@pytest.mark.parametrize(
    ("old", "question", "others"),
    [
        (
            "The code of my locker at the old gym is 4711",
            "What is the code of my locker at the old gym?",
            "The code of the new door number {} at my gym",
        ),
        ("我在老体育馆的储物柜密码是4711", "我在老体育馆的储物柜密码是多少？", "我在新体育馆的第{}号门很好"),
    ],
    ids=["en", "zh"],
)
def test_c26_an_old_exact_memory_is_found_among_ten_thousand_newer(
    app: Prowess, url: str, clock: ManualClock, old: str, question: str, others: str
) -> None:
    add(app, old, 0.1)
    clock.advance(timedelta(days=400))
    _add_many(url, clock, [others.format(number) for number in range(NEWER)])
    assert len(app.memories(user="u1")) == NEWER + 1

    started = time.perf_counter()
    found = recall(app, question)
    assert time.perf_counter() - started < 5
    assert found[0] == old
    assert len(found) == 6


def _add_many(url: str, clock: ManualClock, words: list[str]) -> None:
    owner = {"tenant": "default", "user_id": "u1", "agent_id": "mira"}
    at = to_ms(clock.now())
    rest = {"layer": "L3", "importance": 1.0, "created_at": at, "updated_at": at, "revision": 1}
    found = [owner | rest | {"id": f"new-{number}", "text": text} for number, text in enumerate(words)]
    terms = [
        owner | {"memory_id": f"new-{number}", "term": term}
        for number, text in enumerate(words)
        for term in terms_of(text)
    ]
    database = Database(url)
    with database.write() as connection:
        connection.execute(insert(memories).inline(), found)
        connection.execute(insert(memory_terms).inline(), terms)
    database.close()
