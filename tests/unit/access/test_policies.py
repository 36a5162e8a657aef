"""Policy files: what is read, what is refused, and that order does not matter (G14, U1, cases C35 and C82)."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from prowess.access.model import Mode, RuleVerdict
from prowess.access.policies import (
    MAX_POLICY_BYTES,
    MAX_RULES,
    NO_POLICIES,
    Attempt,
    PolicySet,
    Rule,
    load_policies,
    parse_policy,
)
from prowess.errors import InvalidInput

YAML = """\
version: 1
mode: dont_ask
rules:
  - id: no-mail
    effect: deny
    tools: ["mail.*"]
    match:
      - {tool: mail.send}
    not_match:
      - {tool: post.send}
"""
JSON = json.dumps(
    {
        "version": 1,
        "mode": "dont_ask",
        "rules": [
            {
                "id": "no-mail",
                "effect": "deny",
                "tools": ["mail.*"],
                "match": [{"tool": "mail.send"}],
                "not_match": [{"tool": "post.send"}],
            }
        ],
    }
)

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(text: str | bytes, name: str = "policy.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to


def rule(id: str = "r", effect: Any = "deny", **fields: Any) -> Rule:
    return Rule(id=id, effect=effect, **{"match": ({"tool": "t", "skill": "a"},), **fields})


def refused(text: str | bytes) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_policy(text if isinstance(text, bytes) else text.encode(), "p.yaml")
    assert caught.value.detail["file"] == "p.yaml"
    return caught.value


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [YAML, JSON, "\ufeff" + YAML, "\n  " + JSON], ids=["yaml", "json", "bom", "spaces"])
def test_u1_a_policy_is_read_from_yaml_and_json_alike(text: str, write: Write) -> None:
    known = load_policies([write(text)])
    assert known.mode is Mode.DONT_ASK
    assert known.judge(Attempt("u", "m", "a", "mail.send")) == RuleVerdict("deny", "no-mail")
    assert known.judge(Attempt("u", "m", "a", "post.send")) == RuleVerdict(None)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("effect: deny", "effect: forbid", "rules.0.effect (no-mail)"),
        ("effect: deny", "efect: deny", "rules.0.effect (no-mail)"),
        ('tools: ["mail.*"]', 'tool: ["mail.*"]', "rules.0.tool (no-mail)"),
        ('tools: ["mail.*"]', "tools: []", "rules.0.tools (no-mail)"),
        ('tools: ["mail.*"]', 'tools: [" "]', "rules.0.tools (no-mail)"),
        ('tools: ["mail.*"]', "tools: mail.send", "rules.0.tools (no-mail)"),
        ("id: no-mail", "id: ''", "rules.0.id ()"),
        ("version: 1", "version: 2", "version"),
        ("version: 1\n", "", "version"),
        ("mode: dont_ask", "mode: careless", "mode"),
        ("mode: dont_ask", "comment: hello", "comment"),
        ("- {tool: mail.send}", "- {tol: mail.send}", "rules.0.match.0.tol (no-mail)"),
    ],
)
def test_c35_c82_an_unknown_key_or_word_or_an_empty_list_is_refused_with_its_place(
    old: str, new: str, place: str
) -> None:
    assert old in YAML
    fault = refused(YAML.replace(old, new))
    assert (fault.code, fault.detail["place"]) == ("policy_invalid", place)
    assert fault.detail["cause"]


@pytest.mark.parametrize("text", ["version: 1\nrules: []\n", "version: 1\n", "[]", "5", "", "# nothing\n", "rules"])
def test_c35_a_file_without_rules_is_refused(text: str) -> None:
    assert refused(text).code == "policy_invalid"


def test_u1_an_example_that_does_not_come_out_as_written_is_refused() -> None:
    wrong = refused(YAML.replace("{tool: mail.send}", "{tool: mall.send}"))
    assert (wrong.detail["place"], wrong.detail["cause"]) == ("rules.0 (no-mail)", "match example 1 does not match")
    wrong = refused(YAML.replace("{tool: post.send}", "{tool: mail.read}"))
    assert wrong.detail["cause"] == "not_match example 1 matches"
    assert (
        refused(YAML.replace("    match:\n      - {tool: mail.send}\n", "")).detail["place"]
        == "rules.0.match (no-mail)"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("version: 1\nrules: [\n", 3),
        ("version: 1\nrules:\n\t- id: a\n", 3),
        ("version: 1\nversion: 1\nrules: []\n", 2),
        ("version: 1\nrules:\n  - &a [*a]\n", 3),
        ('{"version": 1,\n "rules": [],\n}', 3),
        ('{"version": 1,\n "rules": [1,]}', 2),
        ('{"version": 1, "version": 1, "rules": []}', 1),
        ("{version: 1}", 1),
        ('{"version": 1} // all', 1),
        ("{" * 5, 1),
    ],
)
def test_c82_a_syntax_error_names_its_line(text: str, line: int) -> None:
    """A trailing comma or a key that stands twice loses a rule in a parser that is lenient."""
    fault = refused(text)
    assert fault.code == "policy_syntax"
    assert abs(fault.detail["line"] - line) <= 1


def test_c82_a_file_that_is_nested_too_deeply_is_refused() -> None:
    assert refused('{"a":' * 5_000).code == "policy_syntax"
    assert refused("[" * 500).code == "policy_syntax"


def test_c82_a_file_that_is_not_utf_8_is_refused() -> None:
    assert refused(YAML.encode("utf-16")).code == "policy_syntax"
    assert refused(b"version: 1\nrules: \xff\n").detail["cause"] == "not UTF-8"


def test_c82_a_file_that_is_missing_or_a_folder_or_too_large_is_refused(tmp_path: Path, write: Write) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(InvalidInput, match="policy_unreadable"):
            load_policies([path])
    with pytest.raises(InvalidInput, match="policy_too_large"):
        load_policies([write(YAML + "#" * MAX_POLICY_BYTES)])


def test_c35_a_rule_that_is_there_twice_is_refused(write: Write) -> None:
    again = YAML[YAML.index("  - id") :]
    assert "is there twice" in refused(YAML + again).detail["cause"]
    with pytest.raises(InvalidInput, match="policy_rule_twice"):
        load_policies([write(YAML), write(JSON, "other.json")])


def test_u1_a_file_has_a_number_of_rules() -> None:
    rules = [{"id": f"r{number}", "effect": "deny", "match": [{}]} for number in range(MAX_RULES + 1)]
    assert refused(json.dumps({"version": 1, "rules": rules})).detail["place"] == "rules"


def test_u1_one_broken_file_spoils_all_of_them(write: Write) -> None:
    with pytest.raises(InvalidInput, match="policy_syntax"):
        load_policies([write(YAML), write("{", "broken.json")])
    assert load_policies([]) == NO_POLICIES


@pytest.mark.parametrize(
    ("modes", "strictest"),
    [
        ((None, None), None),
        (("bypass", None), "bypass"),
        (("bypass", "default"), "default"),
        (("dont_ask", "default"), "dont_ask"),
        (("explore", "dont_ask"), "explore"),
        (("bypass", "explore"), "explore"),
    ],
)
def test_u1_of_several_modes_the_strictest_holds(
    modes: tuple[str | None, ...], strictest: str | None, write: Write
) -> None:
    for order in permutations(modes):
        paths = []
        for number, mode in enumerate(order):
            text = YAML.replace("mode: dont_ask\n", "" if mode is None else f"mode: {mode}\n")
            paths.append(write(text.replace("no-mail", f"r{number}"), f"{number}.yaml"))
        assert load_policies(paths).mode == strictest


# --- judging ---------------------------------------------------------------------------------------------------------


def test_u1_deny_outweighs_ask_and_ask_outweighs_allow_in_any_order() -> None:
    rules = [rule("a", "allow"), rule("b", "ask"), rule("c", "deny"), rule("d", "deny"), rule("e", "ask")]
    attempt = Attempt("u", "m", "a", "t")
    for order in permutations(rules):
        assert PolicySet(order).judge(attempt) == RuleVerdict("deny", "c")
        assert PolicySet(tuple(item for item in order if item.effect != "deny")).judge(attempt).rule == "b"


@pytest.mark.parametrize(
    ("fields", "attempt", "speaks"),
    [
        ({}, Attempt("u", "m", "other"), True),
        ({"users": ("u*",)}, Attempt("u7", "m", "a"), True),
        ({"users": ("u?",)}, Attempt("u7", "m", "a"), False),
        ({"skills": ("fill_form",)}, Attempt("u", "m", "fill-form"), True),
        ({"skills": ("a",)}, Attempt("u", "m", "a-b"), False),
        ({"tools": ("*",)}, Attempt("u", "m", "a"), False),
        ({"tools": ("t",)}, Attempt("u", "m", "a", "T"), False),
        ({"tools": ("t.x",)}, Attempt("u", "m", "a", "tax"), False),
        ({"tools": ("t*",)}, Attempt("u", "m", "a", "t\nx"), True),
        ({"verbs": ("write",)}, Attempt("u", "m", "a", "t", "read"), False),
        ({"verbs": ("write",)}, Attempt("u", "m", "a"), False),
        ({"roles": ("admin",)}, Attempt("u", "m", "a", roles=frozenset({"admin", "x"})), True),
        ({"roles": ("*",)}, Attempt("u", "m", "a"), False),
        ({"resources": ("/home/**",)}, Attempt("u", "m", "a", "t", resource="/home/x"), True),
        ({"resources": ("/home/**",)}, Attempt("u", "m", "a", "t", resource="/home/../etc"), False),
        ({"resources": ("/home/**",)}, Attempt("u", "m", "a", "t"), False),
        ({"users": ("u",), "agents": ("m2",)}, Attempt("u", "m", "a"), False),
    ],
)
def test_u1_every_field_that_is_given_must_match(fields: dict[str, Any], attempt: Attempt, speaks: bool) -> None:
    example = {
        "user": "u", "agent": "m2", "skill": "a", "tool": "t", "roles": {"admin"}, "resource": "/home/x",
    }  # fmt: skip
    fitting = {"users": {"user": "ux"}, "skills": {"skill": fields.get("skills", ("",))[0]}}
    for name, changed in fitting.items():
        example |= changed if name in fields and "agents" not in fields else {}
    if fields.get("users") == ("u?",):
        example["user"] = "u?"
    if "tools" in fields:
        example["tool"] = fields["tools"][0]
    if "resources" in fields:
        example["resource"] = "/home/x"
    made = Rule(id="r", effect="deny", match=({**example, "verb": "write"},), **fields)
    assert made.matches(attempt) is speaks


def test_u1_rules_are_immutable() -> None:
    made: Any = rule()
    with pytest.raises(ValueError, match="frozen"):
        made.effect = "allow"
    policies: Any = PolicySet((made,))
    with pytest.raises(AttributeError):
        policies.rules = ()


def test_u3_it_is_known_whether_any_rule_asks_for_roles() -> None:
    assert not PolicySet((rule(),)).names_roles
    assert PolicySet((rule(roles=("r",), match=({"roles": {"r"}},)),)).names_roles
