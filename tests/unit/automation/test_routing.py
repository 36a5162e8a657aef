"""Which agent a task goes to (B17)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess import InvalidInput, NotFound
from prowess.automation.delegation.routing import route
from prowess.chat.model import Agent
from prowess.chat.tags import MAX_TAGS, check_tags

TAGS = st.sampled_from(["law", "tax", "cooking", "税务"])
SETS = st.sets(TAGS)


def agent(id: str, good: set[str] | None = None, bad: set[str] | None = None, owner: str | None = None) -> Agent:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return Agent("default", id, id, "", "en", owner, at, good_at=tuple(good or ()), not_for=tuple(bad or ()))


AGENTS = st.lists(
    st.builds(agent, st.sampled_from("abcdef"), SETS, SETS, st.sampled_from([None, "u1", "u2"])),
    unique_by=lambda item: item.id,
)


def test_b17_the_best_match_gets_it_and_the_first_by_id_of_equals() -> None:
    found = [agent("b", {"law"}), agent("c", {"law", "tax"}), agent("a", {"law"})]
    assert route(["law", "tax"], found, user="u1", above=()) == "c"
    assert route(["law"], found[::2], user="u1", above=()) == "a"
    with pytest.raises(NotFound) as caught:
        route(["tax", "cooking"], found[::2], user="u1", above=())
    assert (caught.value.code, caught.value.detail["needs"]) == ("no_agent_for", "cooking, tax")


@given(st.sets(TAGS, min_size=1), AGENTS, st.sets(st.sampled_from("abcdef")))
def test_b17_whoever_gets_it_may_and_nobody_who_may_is_better(
    needs: set[str], found: list[Agent], above: set[str]
) -> None:
    def fits(item: Agent) -> bool:
        shut = item.id in above or needs & set(item.not_for) or item.owner not in (None, "u1")
        return not shut and bool(needs & set(item.good_at))

    fitting = {item.id: len(needs & set(item.good_at)) for item in found if fits(item)}
    if not fitting:
        with pytest.raises(NotFound):
            route(needs, found, user="u1", above=above)
        return
    chosen = route(needs, found, user="u1", above=above)
    assert fitting[chosen] == max(fitting.values())
    assert chosen == route(needs, list(reversed(found)), user="u1", above=above)
    assert not any(other < chosen and count == fitting[chosen] for other, count in fitting.items())


def test_b17_tags_are_lowered_sorted_and_limited() -> None:
    assert check_tags(["Tax", "law", "TAX", "税务", "tax-law"], "good_at") == ("law", "tax", "tax-law", "税务")
    for given_tags, code in (
        ("law", "wrong_type"),
        ([1], "wrong_type"),
        (["two words"], "bad_tag"),
        ([""], "bad_tag"),
        (["-x"], "bad_tag"),
        (["x" * 41], "bad_tag"),
        ([f"t{number}" for number in range(MAX_TAGS + 1)], "too_many_tags"),
    ):
        with pytest.raises(InvalidInput) as caught:
            check_tags(given_tags, "needs")  # type: ignore[arg-type]
        assert caught.value.code == code
