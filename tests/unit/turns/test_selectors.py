"""Which skill serves a message (T2–T5, T7, C20–C24)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kit import interview, manual, tool

from prowess.errors import NotFound
from prowess.skills.manifest import ChatScope
from prowess.turns.definitions import SkillDefinition
from prowess.turns.request import Selection
from prowess.turns.selectors import Command, parse_command, select

SINGLE, GROUP = ChatScope.SINGLE, ChatScope.GROUP

RESOLVE = manual("resolve", keywords=("resolve", "conflict", "merge"))
DEPLOY = manual("deploy", keywords=("deploy", "docker", "部署", "上线"))
LINEAR = manual("linear", keywords=("linear", "issue", "ticket"))
GITHUB = manual("github", keywords=("github", "pull request", "repository"))
CANCEL_SKILL = manual("cancel-skill", keywords=("cancel", "subscription"))
PLAN = interview("plan", keywords=("quartz", "zebra"))
LOOKUP = tool("lookup", keywords=("quartz", "zebra"))
NOTES = manual("notes", keywords=("quartz", "zebra"))
ALL: list[SkillDefinition] = [RESOLVE, DEPLOY, LINEAR, GITHUB, CANCEL_SKILL, PLAN, LOOKUP, NOTES]


def chosen(text: str, candidates: list[SkillDefinition] | None = None, scope: ChatScope = SINGLE) -> str | None:
    selection = select(text, ALL if candidates is None else candidates, scope)
    return None if selection is None else selection.skill_id


def refusal(text: str, candidates: list[Any], scope: ChatScope = SINGLE) -> dict[str, Any]:
    with pytest.raises(NotFound) as refused:
        select(text, candidates, scope)
    return refused.value.to_json()


# --- commands as typed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/resolve fix the deploy skill", Command("resolve", "fix the deploy skill", skill_only=False)),
        ("/Format_JSON  {a: 1}", Command("format-json", "{a: 1}", skill_only=False)),
        ("  /deploy", Command("deploy", "", skill_only=False)),
        ("/skill deploy to prod", Command("deploy", "to prod", skill_only=True)),
        ("/SKILL Deploy", Command("deploy", "", skill_only=True)),
        ("/skill", Command("skill", "", skill_only=False)),
        ("/skill ", Command("skill", "", skill_only=False)),
        ("/deploy\nline two", Command("deploy", "line two", skill_only=False)),
        ("/deploy\u3000到生产环境", Command("deploy", "到生产环境", skill_only=False)),
        ("/skill\u3000deploy\u3000现在", Command("deploy", "现在", skill_only=True)),
        ("\u3000/deploy", Command("deploy", "", skill_only=False)),
        ("/deploy 部署", Command("deploy", "部署", skill_only=False)),
        ("/2024-plan", Command("2024-plan", "", skill_only=False)),
    ],
    ids=ascii,
)
def test_t4_a_command_is_a_slash_a_name_and_the_rest(text: str, command: Command) -> None:
    assert parse_command(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deploy",
        "please /deploy",
        "/etc/hosts",
        "/ 2",
        "/",
        "//deploy",
        "/-x",
        "/部署",
        "/a部署",
        "/deploy!",
        "/a@b",
    ],
    ids=ascii,
)
def test_t4_anything_else_is_no_command(text: str) -> None:
    assert parse_command(text) is None


# --- explicit (T4) ---------------------------------------------------------------------------------------------------


def test_t3_t4_an_explicit_selection_says_so() -> None:
    expected = Selection("deploy", "1.0.0", "prompt", "explicit", 1.0, "command")
    assert select("/deploy now", ALL, SINGLE) == expected
    assert select("/skill deploy now", ALL, SINGLE) == expected
    assert select("/Deploy", ALL, SINGLE) == expected


def test_c20_the_argument_of_a_command_selects_nothing() -> None:
    assert chosen("/resolve fix the deploy skill") == "resolve"
    assert chosen("/resolve deploy docker 部署 上线 quartz zebra") == "resolve"
    assert refusal("/resolve fix the deploy skill", [DEPLOY])["error"]["detail"] == {"command": "resolve"}


def test_c21_a_skill_with_the_name_of_a_command_can_be_named() -> None:
    assert chosen("/skill cancel-skill") == "cancel-skill"
    assert chosen("/skill cancel_skill now") == "cancel-skill"


def test_t4_no_bound_candidates_block_explicit_commands() -> None:
    for text in ("/deploy", "/skill deploy", "/resolve fix the deploy skill"):
        assert refusal(text, [])["error"]["code"] == "unknown_command"


def test_t4_g8_unbound_and_unknown_are_answered_alike() -> None:
    unbound = refusal("/deploy x", [RESOLVE])
    unknown = refusal("/deplox x", [RESOLVE])
    assert unbound["error"]["detail"] == {"command": "deploy"}
    assert str(unbound).replace("deploy", "deplox") == str(unknown)


def test_t4_t7_a_command_for_another_scope_is_unknown() -> None:
    assert refusal("/plan", ALL, GROUP) == refusal("/plan", [], GROUP)
    assert chosen("/plan", scope=SINGLE) == "plan"


# --- rules (T5) ------------------------------------------------------------------------------------------------------


def test_t2_workflow_goes_before_tool_before_prompt() -> None:
    text = "quartz and zebra"
    candidates = [NOTES, LOOKUP, PLAN]
    assert select(text, candidates, SINGLE) == Selection(
        "plan", "1.0.0", "workflow", "rule", 0.7, "keywords quartz, zebra"
    )
    assert chosen(text, [NOTES, LOOKUP]) == "lookup"
    assert chosen(text, [NOTES]) == "notes"
    assert chosen(text, []) is None


def test_t2_a_weak_workflow_goes_before_a_strong_prompt() -> None:
    strong = manual("strong", patterns=("quartz and zebra",))
    assert chosen("quartz and zebra", [strong, PLAN]) == "plan"


def test_t5_within_a_kind_the_best_score_wins_then_the_first_id() -> None:
    more = manual("zz-more", keywords=("quartz", "zebra", "opal"))
    pattern = manual("zzz-pattern", patterns=("opal",))
    twin = manual("aa-notes", keywords=("zebra", "quartz"))
    assert chosen("quartz zebra opal", [NOTES, more]) == "zz-more"
    assert chosen("quartz zebra opal", [NOTES, more, pattern]) == "zzz-pattern"
    assert chosen("quartz zebra", [NOTES, more, twin]) == "aa-notes"


def test_t7_a_single_chat_skill_never_fires_in_a_group() -> None:
    text = "quartz and zebra"
    assert chosen(text, [NOTES, LOOKUP, PLAN], GROUP) == "notes"
    only_group = manual("only-group", keywords=("quartz", "zebra"), scopes=["group_chat"])
    assert chosen(text, [only_group], GROUP) == "only-group"
    assert chosen(text, [only_group], SINGLE) is None


def test_c22_words_in_passing_select_nothing() -> None:
    assert chosen("the linear growth on github last week") is None
    assert chosen("the linear growth on github last week", [LINEAR, GITHUB]) is None


def test_c23_chinese_with_and_without_latin_words_is_found() -> None:
    assert chosen("用docker部署") == "deploy"
    assert chosen("帮我把服务部署上线") == "deploy"


@pytest.mark.parametrize("text", ["hello", "今天天气怎么样", "Guten Tag", "？", "1234567890"])
def test_c24_no_match_selects_nothing(text: str) -> None:
    assert chosen(text) is None


# --- for all texts ---------------------------------------------------------------------------------------------------

fragments = st.sampled_from(
    [
        "quartz",
        "zebra",
        "docker",
        "部署",
        "上线",
        "resolve",
        "/deploy ",
        "/skill plan ",
        "/nope ",
        " ",
        "and",
        "的",
        "\n",
    ]
)
texts = st.lists(fragments | st.text(max_size=10), max_size=8).map("".join)


def outcome(text: str, candidates: list[SkillDefinition], scope: ChatScope) -> Any:
    try:
        return select(text, candidates, scope)
    except NotFound as error:
        return error.to_json()


@given(texts, st.permutations(ALL), st.sampled_from(ChatScope))
def test_t5_selection_depends_on_nothing_but_text_candidates_and_scope(
    text: str, shuffled: list[SkillDefinition], scope: ChatScope
) -> None:
    once = outcome(text, ALL, scope)
    assert outcome(text, ALL, scope) == once
    assert outcome(text, shuffled, scope) == once
    fresh: list[SkillDefinition] = [type(item)(**_fields(item)) for item in ALL]
    assert outcome(text, fresh, scope) == once


@given(texts, st.lists(st.sampled_from(ALL), unique_by=lambda item: item.manifest.id), st.sampled_from(ChatScope))
def test_t4_t6_t7_only_what_is_bound_and_in_scope_is_selected(
    text: str, bound: list[SkillDefinition], scope: ChatScope
) -> None:
    found = outcome(text, bound, scope)
    if isinstance(found, Selection):
        manifest = next(item.manifest for item in bound if item.manifest.id == found.skill_id)
        assert scope in manifest.scopes
        assert (found.version, found.kind) == (manifest.version, str(manifest.kind))
        assert 0 < found.score <= 1
        assert (found.trigger == "explicit") is (parse_command(text) is not None)


@given(texts, st.sampled_from(ALL))
def test_t5_a_skill_that_is_not_chosen_may_go_without_changing_the_choice(text: str, gone: SkillDefinition) -> None:
    before = outcome(text, ALL, SINGLE)
    if isinstance(before, Selection) and before.skill_id != gone.manifest.id:
        assert outcome(text, [item for item in ALL if item is not gone], SINGLE) == before


def _fields(definition: SkillDefinition) -> dict[str, Any]:
    return {name: getattr(definition, name) for name in definition.__dataclass_fields__}
