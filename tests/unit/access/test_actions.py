"""What an "always allow" binds: the effective action, never its wrapper (U5, case C89)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import pytest

from prowess.access.actions import MAX_COMMAND, command_resource, effective_action
from prowess.access.model import EffectiveAction, StandingApproval
from prowess.access.standing.service import difference
from prowess.errors import InvalidInput

NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def standing(action: EffectiveAction, **changed: Any) -> StandingApproval:
    return replace(StandingApproval("s1", "t1", "u1", "mira", "shell", action, NOW), **changed)


def command(text: str) -> EffectiveAction:
    return effective_action("shell.run", "write", command_resource(text), {})


def test_u5_c89_other_words_behind_the_same_wrapper_are_another_action() -> None:
    lines = [
        "env sh -c 'x'", "env sh -c 'y'", "env sh -c x y", "sh -c 'x'", "env", "env sh", "xargs sh -c 'x'",
        "env A=1 sh -c 'x'", "sudo env sh -c 'x'", "env sh -c 'x; y'", "env  sh -c 'x '", "x",
    ]  # fmt: skip
    for one, other in combinations(lines, 2):
        assert command(one) != command(other), (one, other)
        assert difference(standing(command(one)), "mira", command(other)) == "resource"


def test_u5_c89_the_same_words_are_the_same_action_however_they_are_quoted() -> None:
    assert command("env sh -c 'rm x'") == command('env   sh -c "rm x"') == command("env sh -c rm\\ x")
    assert command_resource(["env", "sh", "-c", "rm x"]) == command_resource("env sh -c 'rm x'")


def test_u5_c89_words_are_a_list_and_never_a_joined_string() -> None:
    assert command_resource(["a b"]) != command_resource(["a", "b"])
    assert command_resource(["a", "", "b"]) != command_resource(["a", "b"])
    assert command_resource(['a","b']) != command_resource(["a", "b"])
    assert command_resource(["a"]) != "a"


@pytest.mark.parametrize("broken", ["", "  ", "sh -c 'x", 'a "', "a\\", [], [1], [None], ["a" * (MAX_COMMAND + 1)]])
def test_u5_c89_a_command_that_cannot_be_read_is_refused(broken: Any) -> None:
    with pytest.raises(InvalidInput, match="bad_command"):
        command_resource(broken)


def test_u5_without_a_resource_the_arguments_are_what_is_acted_on() -> None:
    one = effective_action("mail.send", "write", None, {"to": "a", "text": "x"})
    assert one == effective_action("mail.send", "write", None, {"text": "x", "to": "a"})
    assert one != effective_action("mail.send", "write", None, {"to": "b", "text": "x"})
    assert one != effective_action("mail.send", "write", None, {})
    assert "x" not in one.resource.split()


def test_u5_with_a_resource_the_arguments_may_differ() -> None:
    one = effective_action("http.get", "read", "https://h.example", {"q": 1})
    assert one == effective_action("http.get", "read", "https://h.example", {"q": 2})
    assert one != effective_action("http.get", "read", "https://h.example/", {"q": 1})
    assert effective_action("http.get", "read", "", {}).resource == ""


def test_u5_an_action_is_a_triple_that_cannot_be_joined_into_another() -> None:
    assert EffectiveAction("a", "write", "b c") != EffectiveAction("a write", "write", "c")
    assert len({EffectiveAction("a.b", "read", "c"), EffectiveAction("a", "read", "b.c")}) == 2
