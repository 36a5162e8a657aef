"""Policies: the operator's rules, in files that carry their own examples (G14, U1; cases C35 and C82).

A rule names whom and what it speaks of; deny outweighs ask, ask outweighs allow, whatever their order. An allow settles
a question of the approval layer and nothing else: it never replaces filter, entitlement, activation or consent. A file
with an unknown key, an empty list, a syntax error, or an example that does not come out as written is an error when it
is loaded: no rule ever vanishes silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from prowess.access.model import NO_RULE, Effect, Mode, RuleVerdict, Verb
from prowess.access.resources import covers
from prowess.errors import InvalidInput
from prowess.kernel.names import normalise_skill_name
from prowess.kernel.yaml_nodes import YamlFault, compose, value_of

MAX_POLICY_BYTES = 1_000_000
MAX_RULES = 10_000

_RANK: dict[Effect | None, int] = {None: 0, "allow": 1, "ask": 2, "deny": 3}


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a rule is asked about. ``tool`` null: the skill itself is about to serve a turn."""

    user: str
    agent: str
    skill: str
    tool: str | None = None
    verb: Verb = "write"
    resource: str | None = None
    roles: frozenset[str] = frozenset()


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Example(_Strict):
    """An attempt that a rule must match, or must not. Fields left out match no rule that names them."""

    user: str = ""
    agent: str = ""
    skill: str = ""
    tool: str | None = None
    verb: Verb = "write"
    resource: str | None = None
    roles: frozenset[str] = frozenset()

    def to_attempt(self) -> Attempt:
        """The same as the gate would ask it."""
        skill = normalise_skill_name(self.skill)
        return Attempt(self.user, self.agent, skill, self.tool, self.verb, self.resource, self.roles)


class Rule(_Strict):
    """One rule. Every field that is given must match; a list matches where one of its patterns does.

    ``*`` in a pattern stands for any characters. ``resources`` are matched as grants are (ruling 12.32).
    """

    id: str = Field(min_length=1, max_length=128)
    effect: Literal["allow", "ask", "deny"]
    users: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    verbs: tuple[Verb, ...] | None = None
    resources: tuple[str, ...] | None = None
    match: tuple[Example, ...] = Field(min_length=1)
    not_match: tuple[Example, ...] | None = Field(default=None, min_length=1)

    @field_validator("users", "roles", "agents", "skills", "tools", "verbs", "resources")
    @classmethod
    def _not_empty(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if patterns is not None and (not patterns or not all(item.strip() for item in patterns)):
            raise ValueError("an empty list or pattern matches nothing; leave the key out to match everything")
        return patterns

    @field_validator("skills")
    @classmethod
    def _canonical_skills(cls, skills: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if skills is None else tuple(map(normalise_skill_name, skills))

    @model_validator(mode="after")
    def _examples_hold(self) -> Self:
        for wanted, examples in ((True, self.match), (False, self.not_match)):
            for number, example in enumerate(examples or (), start=1):
                if self.matches(example.to_attempt()) is not wanted:
                    key = "match" if wanted else "not_match"
                    raise ValueError(f"{key} example {number} {'does not match' if wanted else 'matches'}")
        return self

    def matches(self, attempt: Attempt) -> bool:
        """Whether the rule speaks of the attempt. A rule on tools, verbs or resources speaks of tool calls only."""
        return (
            _any(self.skills, attempt.skill)
            and _any(self.tools, attempt.tool)
            and _any(self.users, attempt.user)
            and _any(self.agents, attempt.agent)
            and (self.roles is None or any(_any(self.roles, role) for role in attempt.roles))
            and (self.verbs is None or (attempt.tool is not None and attempt.verb in self.verbs))
            and (self.resources is None or any(covers(resource, attempt.resource) for resource in self.resources))
        )


class PolicyFile(_Strict):
    """A policy file: ``version: 1``, an optional ``mode``, and rules."""

    version: Literal[1]
    mode: Mode | None = None
    rules: tuple[Rule, ...] = Field(min_length=1, max_length=MAX_RULES)

    @model_validator(mode="after")
    def _one_rule_an_id(self) -> Self:
        ids = [rule.id for rule in self.rules]
        twice = next((item for item in ids if ids.count(item) > 1), None) if len(set(ids)) < len(ids) else None
        if twice is not None:
            raise ValueError(f"rule {twice!r} is there twice")
        return self


@dataclass(frozen=True, slots=True)
class PolicySet:
    """The rules in force. Their order does not matter: the strictest that matches decides, then the first id."""

    rules: tuple[Rule, ...] = ()
    mode: Mode | None = None
    """null: the files do not say"""

    def judge(self, attempt: Attempt) -> RuleVerdict:
        """What the rules say of the attempt."""
        if not self.rules:
            return NO_RULE
        found = [rule for rule in self.rules if rule.matches(attempt)]
        if not found:
            return NO_RULE
        first = min(found, key=lambda rule: (-_RANK[rule.effect], rule.id))
        return RuleVerdict(first.effect, first.id)

    @property
    def names_roles(self) -> bool:
        """Whether any rule asks for the user's roles."""
        return any(rule.roles is not None for rule in self.rules)


NO_POLICIES = PolicySet()

_STRICTNESS = (Mode.BYPASS, Mode.DEFAULT, Mode.DONT_ASK, Mode.EXPLORE)


def load_policies(paths: Iterable[str | Path]) -> PolicySet:
    """The rules of several files together; of several modes the strictest.

    Raises ``InvalidInput``: ``policy_unreadable``, ``policy_too_large``, ``policy_syntax`` (with line),
    ``policy_invalid`` (with the place), ``policy_rule_twice``.
    """
    rules: dict[str, Rule] = {}
    modes: list[Mode] = []
    for path in paths:
        file = read_policy(Path(path))
        if file.mode is not None:
            modes.append(file.mode)
        for rule in file.rules:
            if rule.id in rules:
                raise InvalidInput("policy_rule_twice", file=str(path), rule=rule.id)
            rules[rule.id] = rule
    return PolicySet(tuple(rules.values()), max(modes, key=_STRICTNESS.index, default=None))


def read_policy(path: Path) -> PolicyFile:
    """One file, in YAML or JSON, checked in full. Raises as ``load_policies``."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput("policy_unreadable", file=str(path), cause=error.strerror or "") from None
    if len(data) > MAX_POLICY_BYTES:
        raise InvalidInput("policy_too_large", file=str(path), limit=MAX_POLICY_BYTES)
    return parse_policy(data, str(path))


def parse_policy(data: bytes, name: str) -> PolicyFile:
    """A policy file's content. Raises ``InvalidInput`` (``policy_syntax``, ``policy_invalid``)."""
    try:
        text = data.decode("utf-8-sig")
        found = _json(text) if text.lstrip().startswith("{") else _yaml(text)
    except UnicodeDecodeError:
        raise InvalidInput("policy_syntax", file=name, line=1, cause="not UTF-8") from None
    except json.JSONDecodeError as error:
        raise InvalidInput("policy_syntax", file=name, line=error.lineno, cause=error.msg) from None
    except YamlFault as fault:
        raise InvalidInput("policy_syntax", file=name, line=fault.line, cause=fault.code) from None
    if not isinstance(found, Mapping):
        raise InvalidInput("policy_invalid", file=name, place="", cause="a mapping with version and rules is needed")
    try:
        return PolicyFile.model_validate(found)
    except ValidationError as error:
        raise InvalidInput("policy_invalid", file=name, **_first_fault(error, found)) from None


def _yaml(text: str) -> Any:
    node = compose(text)
    return None if node is None else value_of(node)


def _json(text: str) -> Any:
    """Strict JSON: in a file that begins with a brace a trailing comma is a fault, though YAML would read on (C82)."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise json.JSONDecodeError("a key is there twice", text, 0)
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", text, 0) from None


def _first_fault(error: ValidationError, found: Mapping[str, Any]) -> dict[str, Any]:
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    rules = found.get("rules")
    if len(fault["loc"]) > 1 and fault["loc"][0] == "rules" and isinstance(rules, list):
        rule = rules[int(fault["loc"][1])]
        if isinstance(rule, Mapping) and isinstance(rule.get("id"), str):
            place = f"{place} ({rule['id']})"
    return {"place": place, "cause": fault["msg"].removeprefix("Value error, ")}


def _any(patterns: tuple[str, ...] | None, name: str | None) -> bool:
    if patterns is None:
        return True
    return name is not None and any(_compiled(pattern).fullmatch(name) for pattern in patterns)


@lru_cache(maxsize=4_096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
