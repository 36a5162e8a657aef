from __future__ import annotations

import re
from datetime import timedelta

import pytest
from tests.support.kit import at_once

from prowess.errors import InvalidInput
from prowess.kernel.clock import ManualClock, to_ms
from prowess.kernel.ids import MAX_ID_LENGTH, RandomIds, SequentialIds, check_id


def test_random_ids_carry_their_time_and_never_repeat(clock: ManualClock) -> None:
    ids = RandomIds(clock)
    made = [ids.new("run") for _ in range(1000)]
    assert len(set(made)) == 1000
    for one in made[:10]:
        match = re.fullmatch(r"run-([0-9a-f]{11})-([0-9a-f]{16})", one)
        assert match is not None
        assert int(match.group(1), 16) == to_ms(clock.now())


def test_random_ids_sort_by_time(clock: ManualClock) -> None:
    ids = RandomIds(clock)
    made = []
    for _ in range(50):
        made.append(ids.new("run"))
        clock.advance(timedelta(milliseconds=1))
    assert made == sorted(made)


def test_sequential_ids_count_over_all_prefixes_and_threads() -> None:
    ids = SequentialIds()
    assert [ids.new("run"), ids.new("msg"), ids.new("run")] == ["run-1", "msg-2", "run-3"]
    made = at_once([lambda: [ids.new("x") for _ in range(200)]] * 8)
    assert sorted(int(one.removeprefix("x-")) for part in made for one in part) == list(range(4, 1604))


@pytest.mark.parametrize("good", ["a", "u1", "用户甲", "a b", "user@example.com", "x" * MAX_ID_LENGTH, "~!;'\"--"])
def test_check_id_takes_any_printable_text(good: str) -> None:
    assert check_id(good, "user") == good


@pytest.mark.parametrize(
    "bad",
    [
        "",
        " ",
        " a",
        "a ",
        "a\n",
        "\ta",
        "a\x00b",
        "a\x7fb",
        "a\u200bb",
        "a\ud800",
        "a\u3000",
        "x" * (MAX_ID_LENGTH + 1),
    ],
    ids=ascii,
)
def test_check_id_refuses_what_cannot_be_one(bad: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_id(bad, "user")
    assert refused.value.code == "bad_id"
    assert refused.value.detail == {"field": "user", "limit": MAX_ID_LENGTH, "length": len(bad)}


@pytest.mark.parametrize("bad", [None, 1, True, b"u1", ["u1"]])
def test_check_id_refuses_what_is_no_text(bad: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_id(bad, "agent")
    assert refused.value.code == "wrong_type"
    assert refused.value.detail == {"field": "agent", "expected": "string", "got": type(bad).__name__}
