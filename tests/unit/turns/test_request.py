"""One entry for every turn (T1), and the shapes that come out (T3)."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
from tests.support.kit import request

from prowess.chat.model import ChatRef
from prowess.errors import (
    Conflict,
    Denied,
    InvalidInput,
    LimitExceeded,
    NotFound,
    ProwessError,
    SkillFileError,
    StorageError,
    VoiceError,
)
from prowess.events.model import EVENT_TYPES
from prowess.skills.manifest import ChatScope
from prowess.turns.request import Selection, TurnRequest, TurnResult

GOOD = request("m1", "hello")


def test_t1_a_request_has_the_fields_of_the_specification() -> None:
    names = {field.name for field in fields(TurnRequest)}
    assert names == {"tenant", "user", "agent", "conversation", "group", "text", "message_id", "origin", "data"}
    GOOD.check()
    with pytest.raises(FrozenInstanceError):
        GOOD.text = "else"  # type: ignore[misc]


def test_t1_t7_the_chat_is_a_typed_pair() -> None:
    assert GOOD.chat == ChatRef("conversation", "c1")
    assert GOOD.scope is ChatScope.SINGLE
    grouped = request("m1", "hello", group="g1")
    assert grouped.chat == ChatRef("group", "g1")
    assert grouped.scope is ChatScope.GROUP
    assert ChatRef("group", "x") != ChatRef("conversation", "x")


@pytest.mark.parametrize(
    ("changed", "code", "field"),
    [
        ({"tenant": ""}, "bad_id", "tenant"),
        ({"user": " u"}, "bad_id", "user"),
        ({"agent": "a\n"}, "bad_id", "agent"),
        ({"message_id": "x" * 201}, "bad_id", "message_id"),
        ({"origin": ""}, "bad_id", "origin"),
        ({"message_id": 7}, "wrong_type", "message_id"),
        ({"conversation": ""}, "bad_id", "conversation"),
        ({"conversation": None, "group": "g\x00"}, "bad_id", "group"),
        ({"conversation": None}, "scope_missing", "conversation"),
        ({"group": "g1"}, "scope_missing", "conversation"),
        ({"text": ""}, "text_empty", "text"),
        ({"text": " \n "}, "text_empty", "text"),
        ({"text": "a\x00"}, "control_character", "text"),
        ({"text": "x" * 32_001}, "text_too_long", "text"),
        ({"text": None}, "wrong_type", "text"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else "",
)
def test_t1_what_cannot_be_a_turn_is_refused(changed: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        replace(GOOD, **changed).check()
    assert refused.value.code == code
    assert refused.value.detail["field"] == field


def test_t3_a_selection_has_the_fields_of_the_specification() -> None:
    assert [field.name for field in fields(Selection)] == [
        "skill_id",
        "version",
        "kind",
        "trigger",
        "score",
        "reason",
    ]


def test_t1_a_result_has_the_keys_of_the_contract() -> None:
    assert {field.name for field in fields(TurnResult)} == {
        "message_id",
        "reply",
        "selection",
        "session",
        "run",
        "decision",
        "instruction",
        "tool_calls",
        "pending_approvals",
        "replayed",
        "events",
    }


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ProwessError, 500),
        (InvalidInput, 400),
        (SkillFileError, 422),
        (Denied, 403),
        (NotFound, 404),
        (Conflict, 409),
        (LimitExceeded, 429),
        (StorageError, 503),
        (VoiceError, 502),
    ],
)
def test_t1_errors_have_one_shape_and_cross_processes(kind: type[ProwessError], status: int) -> None:
    error = kind("agent_not_found", agent="mira")
    assert error.http_status == status
    assert error.to_json() == {
        "error": {
            "code": "agent_not_found",
            "message": "There is no agent mira here.",
            "detail": {"agent": "mira"},
            "remedy": "Check the id; agents are listed by `prowess agents list`.",
        }
    }
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is kind
    assert copied.to_json("zh") == error.to_json("zh")
    assert "没有" in copied.message("zh")


def test_t13_every_event_type_has_a_meaning() -> None:
    for name, kind in EVENT_TYPES.items():
        assert name.count(".") == 1
        assert kind.meaning
