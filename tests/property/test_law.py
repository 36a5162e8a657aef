"""The nine properties of the law, over generated requests in small worlds where names collide often.

Each property is asked of many requests, 100,000 in the long run, and no mismatch is allowed; the second opinion is
``tests/support/reference_model.py``. Seeds are fixed: a failure shows again.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from tests.support.kit import manual, tool
from tests.support.reference_model import Group, Law, Skill, gate

from prowess.access.capabilities import (
    META_TOOLS,
    UNRESTRICTED,
    CallSurface,
    Capabilities,
    GroupCapability,
    SkillCapability,
)
from prowess.access.explain import explain
from prowess.access.filters import EVERYTHING, SkillFilter
from prowess.access.gate import COULD_NOT_DECIDE, decide
from prowess.access.guards import ask_guards
from prowess.access.model import (
    ApprovalMode,
    CallApproval,
    EffectiveAction,
    Facts,
    GateRequest,
    Grant,
    GrantScope,
    GrantStatus,
    Layer,
    Mode,
    PermissionRequirement,
    Risk,
    RuleVerdict,
    StandingApproval,
    Verdict,
)
from prowess.access.policies import Attempt, Example, PolicySet, Rule, load_policies
from prowess.access.resolver import CallContext, SurfaceSource
from prowess.access.surface import CapabilitySurface, GroupId, SkillEntry, SkillKey
from prowess.errors import Denied
from prowess.skills.catalog import CatalogEntry
from prowess.turns.definitions import ToolGroup
from prowess.turns.view import Marks, Rights, TurnView

REQUESTS = int(os.environ.get("LAW_REQUESTS", "20000"))
"""of each property; ``./check chaos`` asks a hundred thousand (tests/chaos/test_law_at_length.py)"""
NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
RANK = {"deny": 0, "ask": 1, "allow": 2}

# --- worlds of skills, groups and tools ------------------------------------------------------------------------------

SKILLS = ("a", "a-b", "b", "b-c")
GROUPS = ("a", "g", "a_b", "b")  # some are called as skills are: typed ids, and never a mix-up
TOOLS = ("t1", "t2", "t3", "t4", "a")
ASKED_SKILLS = (*SKILLS, "c")
ASKED_GROUPS = tuple(GroupId(kind, name) for kind in ("declared", "skill") for name in (*SKILLS, *GROUPS))
ASKED_TOOLS = (*TOOLS, "t5")


class World(NamedTuple):
    """One call in both forms."""

    capabilities: Capabilities
    layers: tuple[CapabilitySurface, ...]
    equipped: frozenset[GroupId]
    agent: tuple[Any, ...]
    """what the agent has, as the reference model takes it"""

    @property
    def call(self) -> CallSurface:
        return CallSurface(self.capabilities, self.layers, self.equipped)

    @property
    def law(self) -> Law:
        return Law(*self.agent, [plain(layer) for layer in self.layers], self.equipped)


def plain(surface: CapabilitySurface) -> Any:
    return surface.skills, surface.groups, surface.tools


def some(chance: Random, names: Any, most: int) -> frozenset[Any]:
    return frozenset(chance.choices(names, k=chance.randint(0, most)))


def worlds(chance: Random, count: int) -> Iterator[World]:
    for _ in range(count):
        skills = {
            name: Skill(chance.choice("12"), chance.choice("xy"), some(chance, TOOLS, 2), chance.random() < 0.1)
            for name in chance.sample(SKILLS, chance.randint(0, 4))
        }
        groups = {
            name: Group(
                some(chance, ASKED_TOOLS[:5], 3),
                chance.choice((None, None, *ASKED_SKILLS)),
                chance.random() < 0.7,
                chance.random() < 0.15,
            )
            for name in chance.sample(GROUPS, chance.randint(0, 4))
        }
        loose, marked = some(chance, TOOLS, 3), some(chance, TOOLS, 1)
        capabilities = Capabilities(
            [
                SkillCapability(SkillKey(name, it.version, it.source), it.tools, it.system)
                for name, it in skills.items()
            ],
            [
                GroupCapability(name, it.tools, it.bound, manageable=it.manageable, system=it.system)
                for name, it in groups.items()
            ],
            loose,
            marked,
        )
        layers = tuple(surface(chance) for _ in range(chance.randint(1, 4)))
        equipped = some(chance, ASKED_GROUPS, 8)
        agent = (skills, groups, frozenset(loose) | META_TOOLS, frozenset(marked) | META_TOOLS)
        yield World(capabilities, layers, equipped, agent)


def surface(chance: Random) -> CapabilitySurface:
    def dimension(names: Any, most: int) -> Any:
        return None if chance.random() < 0.35 else some(chance, names, most)

    if chance.random() < 0.1:
        return chance.choice((CapabilitySurface.ALLOW_ALL, CapabilitySurface.DENY_ALL))
    return CapabilitySurface(dimension(ENTRIES, 3), dimension(ASKED_GROUPS, 3), dimension(ASKED_TOOLS, 3))


ENTRIES = tuple(
    SkillEntry(name, version, source) for name, version, source in product(ASKED_SKILLS, (None, "1"), (None, "x"))
)
QUESTIONS = len(ASKED_SKILLS) + len(ASKED_GROUPS) + len(ASKED_TOOLS)
COUNT = REQUESTS // QUESTIONS + 1

# --- requests to the gate --------------------------------------------------------------------------------------------

CODES = ("memory:read", "memory:write", "mail:send")
RESOURCES = (None, "a", "docs/x", "https://h.example/p/q")
GIVEN = (None, None, None, None, "a", "docs/**", "https://h.example/p", "https://h.example.evil")
COVERED = {
    ("a", "a"),
    ("docs/**", "docs/x"),
    ("https://h.example/p", "https://h.example/p/q"),
}
REQUIREMENTS = tuple(
    PermissionRequirement(code, risk, approval)
    for code, risk, approval in product(CODES, Risk, ApprovalMode)
    if not (risk in (Risk.L3, Risk.L4) and approval is not ApprovalMode.PER_OPERATION)
    and not (risk in (Risk.L1, Risk.L2) and approval is ApprovalMode.NONE)
    and not (risk is Risk.L4 and code != "mail:send")
)
USUAL = tuple(item for item in REQUIREMENTS if item.risk is not Risk.L4)
ALLOW, ASK, DENY, NOTHING = (RuleVerdict(effect, str(effect)) for effect in ("allow", "ask", "deny", None))
REFUSED = Verdict(False, Layer.ENTITLEMENT, "not_granted")
FAR = (None, None, None, NOW + timedelta(hours=1), NOW, NOW - timedelta(hours=1))


def grants(chance: Random, count: int) -> list[Grant]:
    return [
        Grant(
            id=f"g{number}",
            tenant=chance.choice(("t1",) * 9 + ("t2",)),
            user=chance.choice(("u1",) * 9 + ("u2",)),
            skill_id=chance.choice(("a",) * 9 + ("a-b",)),
            skill_version=chance.choice("12"),
            code=chance.choice(CODES),
            scope=(scope := chance.choice(tuple(GrantScope))),
            agent=chance.choice(("m1", "m1", "m2")) if scope is GrantScope.AGENT else None,
            resource=chance.choice(GIVEN),
            status=GrantStatus.REVOKED if chance.random() < 0.1 else GrantStatus.ACTIVE,
            granted_at=NOW - timedelta(days=chance.randint(1, 3)),
            granted_by="u1",
            expires_at=chance.choice(FAR),
        )
        for number in range(count)
    ]


POOL = grants(Random(0), 600)


def standing(number: int) -> StandingApproval:
    return StandingApproval(f"s{number}", "t1", "u1", "m1", "a", EffectiveAction("t1", "write", "a"), NOW)


STANDING = (standing(1), standing(2))


def approval(chance: Random) -> CallApproval | None:
    """None most of the time; else often the very thing that is asked about, and often off by one thing."""
    if chance.random() < 0.5:
        return None
    exact = CallApproval("y1", "t1", "u1", "m1", "a", "1", "tool:t1", "d1", True, False, NOW + timedelta(minutes=1))
    other: dict[str, Any] = {
        "tenant": "t2", "user": "u2", "agent": "m2", "skill_id": "a-b", "skill_version": "2", "action": "tool:t2",
        "input_digest": "d2", "approved": False, "used": True, "expires_at": chance.choice((NOW, NOW - timedelta(1))),
    }  # fmt: skip
    return exact if chance.random() < 0.5 else exact._replace(**dict([chance.choice(list(other.items()))]))


def asked(chance: Random, count: int) -> Iterator[tuple[GateRequest, Facts]]:
    choice, choices = chance.choice, chance.choices
    for _ in range(count):
        request = GateRequest(
            choice(("t1",) * 9 + ("t2",)),
            choice(("u1",) * 9 + ("u2",)),
            choice(("m1", "m1", "m1", "m2")),
            choice(("a",) * 9 + ("a-b",)),
            "1",
            "tool:t1",
            resource=choice(RESOURCES),
            verb=choice(("read", "write")),
            tentative=chance.random() < 0.1,
            input_digest=choice(("d1", "d1", "d1", "d2", None)),
        )
        needed = choices(REQUIREMENTS if chance.random() < 0.1 else USUAL, k=choice((0, 1, 1, 1, 2)))
        held = {item.id: item for item in choices(POOL, k=choice((0, 1, 2, 3, 6)))}
        facts = Facts(
            tuple({item.code: item for item in needed}.values()),
            tuple(held.values()),
            chance.random() < 0.95,
            NOW,
            REFUSED if chance.random() < 0.05 else UNRESTRICTED,
            choice((NOTHING, NOTHING, ALLOW, ASK, DENY) if chance.random() < 0.4 else (NOTHING,)),
            tuple(choices((ALLOW, ALLOW, ALLOW, ASK, DENY, NOTHING), k=choice((0, 0, 0, 0, 0, 1, 2)))),
            STANDING[: choice((0, 0, 0, 1, 2))],
            choice((Mode.DEFAULT, Mode.DEFAULT, *Mode)),
            chance.random() < 0.2,
            approval(chance),
            choice((frozenset(), frozenset({"mail:send"}))),
            choice((None, None, frozenset(), frozenset(CODES[:1]), frozenset(CODES))),
        )
        yield request, facts


def covered(granted: str, wanted: str | None) -> bool:
    return (granted, wanted) in COVERED


# --- 1. the model and the implementation agree -----------------------------------------------------------------------


def test_g6_g7_g10_g11_the_surface_answers_as_the_model_does() -> None:
    seen = {"skill": 0, "group": 0, "tool": 0, "called": 0}
    for world in worlds(Random(1), COUNT):
        call, law = world.call, world.law
        for name in ASKED_SKILLS:
            assert call.skill(name).allowed is law.skill(name), (world, name)
            seen["skill"] += law.skill(name)
        for group in ASKED_GROUPS:
            assert call.group(group).allowed is law.group(group), (world, group)
            seen["group"] += law.group(group)
        for name in ASKED_TOOLS:
            assert call.tool(name).allowed is law.tool(name), (world, name)
            assert call.execute(name).allowed is law.callable(name), (world, name)
            seen["tool"] += law.tool(name)
            seen["called"] += law.callable(name)
    assert all(count > COUNT // 5 for count in seen.values()), seen


def test_g1_g2_g3_the_gate_answers_as_the_model_does() -> None:
    seen = dict.fromkeys(RANK, 0)
    for request, facts in asked(Random(2), REQUESTS):
        wanted = gate(request, facts, covered)
        assert decide(request, facts).effect == wanted, (request, facts)
        seen[wanted] += 1
    assert all(count > REQUESTS // 50 for count in seen.values()), seen


# --- 2. taking something away never adds an allow --------------------------------------------------------------------


def test_g2_g3_g4_taking_back_a_consent_or_an_approval_never_adds_an_allow() -> None:
    chance = Random(3)
    fewer = 0
    for request, facts in asked(chance, REQUESTS):
        before = RANK[decide(request, facts).effect]
        held = facts.grants or ()
        kept = tuple(item for item in held if chance.random() < 0.6)
        after = RANK[decide(request, replace(facts, grants=kept)).effect]
        assert after <= before, (request, facts, kept)
        fewer += after < before
        if facts.standing:
            assert RANK[decide(request, replace(facts, standing=())).effect] <= before
        for less in ({"approval": None}, {"opened": frozenset()}, {"destructive": True}):
            assert decide(request, replace(facts, **less)).effect != "allow" or before == RANK["allow"], less
        if facts.unattended:
            assert RANK[decide(request, replace(facts, unattended=frozenset())).effect] <= before
    assert fewer > REQUESTS // 100


def test_g6_g7_taking_an_entry_from_a_surface_never_adds_an_entitlement() -> None:
    """Ruling 12.18 itself makes *callable* grow in one case, and in no other.

    A tool "is granted by name while none of its groups is granted" is active. So when the entry goes that granted its
    only (inactive) group, a tool that is granted by name becomes callable. It was entitled before and after.
    """
    chance = Random(4)
    asked_in_all = lost = excepted = 0
    while asked_in_all < REQUESTS:
        for world in worlds(chance, 200):
            index = chance.randrange(len(world.layers))
            layer = world.layers[index]
            entries = [*(layer.skills or ()), *(layer.groups or ()), *(layer.tools or ())]
            if not entries:
                continue
            narrower = layer.without(chance.choice(entries))
            less = world._replace(layers=(*world.layers[:index], narrower, *world.layers[index + 1 :]))
            before, after = world.call, less.call
            for name in ASKED_SKILLS:
                assert before.skill(name).allowed or not after.skill(name).allowed
            for group in ASKED_GROUPS:
                assert before.group(group).allowed or not after.group(group).allowed
            for name in ASKED_TOOLS:
                assert before.tool(name).allowed or not after.tool(name).allowed
                lost += before.tool(name).allowed and not after.tool(name).allowed
                if after.execute(name).allowed and not before.execute(name).allowed:
                    was, now = world.law, less.law
                    assert before.tool(name).allowed
                    assert narrower.names_tool(name)
                    assert was.of[name] & was.granted[index]
                    assert not now.of[name] & now.granted[index]
                    excepted += 1
            asked_in_all += QUESTIONS
    assert lost > REQUESTS // 400
    assert excepted


# --- 3. a child may at most what its parent may ----------------------------------------------------------------------


def test_g9_a_child_may_at_most_what_its_parent_may_at_every_depth() -> None:
    asked_in_all = narrower = 0
    chance = Random(5)
    while asked_in_all < REQUESTS:
        for world in worlds(chance, 200):
            parent = world._replace(layers=world.layers[:1]).call
            for depth in range(2, len(world.layers) + 1):
                child = world._replace(layers=world.layers[:depth]).call
                assert set(child.tools()) <= set(parent.tools())
                assert set(child.manageable_groups()) <= set(parent.manageable_groups())
                assert child.active_groups() <= parent.active_groups()
                for name in ASKED_SKILLS:
                    assert parent.skill(name).allowed or not child.skill(name).allowed
                narrower += set(child.tools()) < set(parent.tools())
                parent = child
                asked_in_all += QUESTIONS
    assert narrower > REQUESTS // 200


def test_g9_a_child_that_names_nothing_of_its_own_has_what_its_parent_has() -> None:
    for world in worlds(Random(6), 2_000):
        heir = world._replace(layers=(*world.layers, CapabilitySurface.ALLOW_ALL)).call
        assert list(heir.tools()) == list(world.call.tools())
        assert heir.active_groups() == world.call.active_groups()


# --- 4. a list holds what a check allows, and nothing else -----------------------------------------------------------


def test_g8_g14_lists_hold_exactly_what_a_check_allows() -> None:
    for world in worlds(Random(7), COUNT):
        call = world.call
        known = world.capabilities.groups
        assert set(call.tools()) == {name for name in (*ASKED_TOOLS, *META_TOOLS) if call.execute(name).allowed}
        assert set(call.manageable_groups()) == {
            group for group in ASKED_GROUPS if call.group(group).allowed and known[group].manageable
        }
        assert call.active_groups() == {group for group in world.equipped if call.group(group).allowed}


def test_g8_g14_u1_the_skills_of_a_view_are_exactly_those_that_it_answers_for() -> None:
    chance = Random(8)
    entries = [
        CatalogEntry(made, source, "0")
        for made, source in (
            (manual("a"), "x"),
            (manual("a-b", version="1.2.0"), "x"),
            (tool("b"), "built-in"),
            (tool("b-c"), "y"),
        )
    ]
    names = [entry.manifest.id for entry in entries]
    sets = [policies(chance) for _ in range(60)]
    for _ in range(REQUESTS // 8):
        view = TurnView(
            user=chance.choice(("u1", "u2")),
            agent=chance.choice(("m1", "m2")),
            rights=Rights(
                tuple(surface(chance) for _ in range(chance.randint(1, 3))),
                some_filter(chance, names) if chance.random() < 0.3 else None,
                tuple(some_filter(chance, names) for _ in range(chance.choice((0, 0, 1, 2)))),
                above=("m2",) if chance.random() < 0.2 else (),
            ),
            agent_filter=EVERYTHING if chance.random() < 0.4 else some_filter(chance, names),
            bound=tuple(chance.sample(entries, chance.randint(0, 4))),
            policies=chance.choice(sets),
            marks=Marks(
                some(chance, names, 1), some(chance, ("tool.b",), 1), (ToolGroup(name="g", tools=("tool.b",)),)
            ),
        )
        listed = {entry.manifest.id for entry in view.candidates}
        assert listed == {name for name in names if view.entry(name) is not None}
        assert listed == {entry.manifest.id for entry in view.bound if view.hidden(entry) is None}
        call = view.surface(None)
        refused = {name for name in names if view.policies.rules and view.judge(name).effect == "deny"}
        assert listed == {name for name in names if call.skill(name).allowed} - refused
        assert set(call.tools()) == {name for name in ("tool.b", "tool.b-c", *META_TOOLS) if call.execute(name).allowed}


def some_filter(chance: Random, names: list[str]) -> SkillFilter:
    kind = chance.choice(("all", "none", "only", "except", "enable", "disable", "only", "except", "enable", "disable"))
    return SkillFilter.of(kind, () if kind in ("all", "none") else chance.choices(names, k=chance.randint(1, 2)))


# --- 5. a fault is a deny --------------------------------------------------------------------------------------------


class Broken:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Raising:
    """Facts one of which raises when it is read."""

    def __init__(self, facts: Facts, name: str) -> None:
        self._facts, self._name = facts, name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise OSError("the database went away")
        return getattr(self._facts, name)


class RaisingGrant(Grant):
    """A grant whose code cannot be read."""

    @property
    def code(self) -> str:  # type: ignore[override]
        raise OSError("the database went away")


FACTS = (
    "requirements", "grants", "enabled", "now", "reach", "policy", "guards", "standing", "mode", "destructive",
    "approval", "opened", "unattended",
)  # fmt: skip
MAY_BE_NONE = ("approval", "unattended")
JUNK: tuple[Any, ...] = (
    None, "", "allow", 0, 1, 1.5, b"", [], {}, set(), object(), Broken(), NOW.isoformat(), datetime(2026, 3, 1),
    (None,), ("allow",), (Broken(),), (1, 2), Ellipsis, lambda: True, SimpleNamespace(effect="allow", allowed=True),
    (SimpleNamespace(effect="allow", rule="x", id="s", risk=Risk.L0, approval=ApprovalMode.NONE, code="x:y"),),
)  # fmt: skip


def unscathed(chance: Random, count: int) -> Iterator[tuple[GateRequest, Facts]]:
    """Requests that would be allowed, were it not for the fault."""
    found = 0
    while found < count:
        for request, facts in asked(chance, 1_000):
            if decide(request, facts).effect == "allow" and found < count:
                found += 1
                yield request, facts


def test_g3_c39_a_fact_that_is_missing_or_wrong_or_raises_is_a_deny() -> None:
    chance = Random(9)
    for request, facts in unscathed(chance, 10_000):
        name = chance.choice(FACTS)
        junk = JUNK[1:] if name in MAY_BE_NONE else JUNK
        faulty: Any = Raising(facts, name) if chance.random() < 0.2 else replace(facts, **{name: chance.choice(junk)})
        assert decide(request, faulty) == COULD_NOT_DECIDE, (name, faulty)


def test_g3_c39_a_faulty_grant_or_requirement_or_question_is_a_deny() -> None:
    chance = Random(10)
    given = {
        name: getattr(grants(chance, 1)[0], name)
        for name in ("id", "tenant", "user", "skill_id", "skill_version", "scope", "agent", "resource", "status")
    }
    raising = RaisingGrant(*grants(chance, 1)[0])
    faults: tuple[Any, ...] = (raising, Broken(), None, "g1", {"id": "g1"}, SimpleNamespace(**given, code=CODES[0]))
    for request, facts in unscathed(chance, 10_000):
        fault, place = (
            chance.choice(faults),
            chance.choice(("grants", "requirements", "guards", "standing", "question")),
        )
        if place == "question":
            assert decide(fault, facts) == COULD_NOT_DECIDE
            continue
        items = list(getattr(facts, place))
        items.insert(chance.randint(0, len(items)), fault)
        assert decide(request, replace(facts, **{place: tuple(items)})) == COULD_NOT_DECIDE, (place, fault)


def test_g3_c39_c81_a_guard_that_fails_is_a_deny() -> None:
    chance = Random(11)
    attempt = Attempt("u1", "m1", "a", "t1")
    over = threading.Event()

    def raises(_attempt: Attempt) -> str:
        raise chance.choice((ValueError, OSError, SystemExit, KeyboardInterrupt))("no")

    def hangs(_attempt: Attempt) -> str:
        over.wait(30)
        return "allow"

    def says(answer: Any) -> Any:
        return lambda _attempt: answer

    wrong = (None, "", "ALLOW", "yes", True, 1, ["allow"], {"effect": "allow"}, b"allow", Broken(), object())
    try:
        for number, (request, facts) in enumerate(unscathed(chance, 10_000)):
            failing: Any = hangs if number % 50 == 0 else raises if number % 3 == 0 else says(chance.choice(wrong))
            asked_too = [failing, says(chance.choice(("allow", "ask")))]
            chance.shuffle(asked_too)
            verdicts = ask_guards(asked_too, attempt, seconds=0.002 if failing is hangs else 5)
            decision = decide(request, replace(facts, guards=verdicts))
            assert (decision.effect, decision.reason) == ("deny", "could_not_decide")
            assert decision.layer is Layer.GUARD
    finally:
        over.set()


def test_g9_g3_a_resolver_that_fails_aborts_the_call() -> None:
    chance = Random(12)
    over = threading.Event()
    wrong = (None, "", "ALLOW_ALL", True, {}, {"skills": None}, (), object(), Broken(), CapabilitySurface, Law)

    class Resolver:
        def __init__(self) -> None:
            self.fault = chance.choice(("raises", "hangs", *(["answers"] * 30)))
            self.answer = chance.choice(wrong)

        def resolve(self, _context: CallContext) -> Any:
            if self.fault == "raises":
                raise chance.choice((RuntimeError, SystemExit, TimeoutError))("no")
            if self.fault == "hangs":
                over.wait(30)
            return CapabilitySurface.DENY_ALL if self.fault == "hangs" else self.answer

    context = CallContext("t1", "u1", "m1")
    try:
        for _ in range(10_000):
            resolver = Resolver()
            seconds = 0.002 if resolver.fault == "hangs" else 5.0
            source = SurfaceSource(resolver, server=chance.random() < 0.5, seconds=seconds)
            with pytest.raises(Denied, match="surface_unresolved"):
                source.resolve(context)
    finally:
        over.set()
    chosen = SurfaceSource(SimpleNamespace(resolve=lambda _context: CapabilitySurface.ALLOW_ALL), server=True)
    with pytest.raises(Denied, match="surface_unresolved"):
        chosen.resolve(context)


# --- 6. the explanation names what the answer hangs on ---------------------------------------------------------------


def test_g14_the_explanation_names_each_grant_whose_removal_flips_the_answer() -> None:
    some_named = 0
    for request, facts in asked(Random(13), REQUESTS):
        explanation = explain(request, facts)
        effect = explanation.decision.effect
        held, always = facts.grants or (), facts.standing or ()
        flipping = {
            gone.id
            for gone in held
            if decide(request, replace(facts, grants=tuple(g for g in held if g is not gone))).effect != effect
        } | {
            gone.id
            for gone in always
            if decide(request, replace(facts, standing=tuple(s for s in always if s is not gone))).effect != effect
        }
        if facts.approval is not None and decide(request, replace(facts, approval=None)).effect != effect:
            flipping.add(facts.approval.id)
        assert set(explanation.decisive) == flipping, (request, facts)
        some_named += bool(flipping)
    assert some_named > REQUESTS // 25


def test_g14_the_entry_that_a_verdict_names_would_have_granted_alone() -> None:
    named = 0
    for world in worlds(Random(14), COUNT // 2):
        call = world._replace(layers=world.layers[:1]).call
        for name in TOOLS:
            by = call.tool(name).by
            if by is None:
                continue
            named += 1
            kind, entry = by
            layer = world.layers[0]
            alone = CapabilitySurface(
                [item for item in layer.skills or () if item.id == entry] if kind == "skill" else (),
                [item for item in layer.groups or () if str(item) == entry] if kind == "group" else (),
                [entry] if kind == "tool" else (),
            )
            assert world._replace(layers=(alone,)).call.tool(name).allowed
            assert not world._replace(layers=(CapabilitySurface.DENY_ALL,)).call.tool(name).allowed
    assert named > REQUESTS // 200


# --- 7. order does not matter ----------------------------------------------------------------------------------------


def shuffled(chance: Random, items: Any) -> Any:
    return tuple(chance.sample(items, len(items)))


def policies(chance: Random) -> PolicySet:
    rules = []
    for number in range(chance.randint(0, 5)):
        fields: dict[str, Any] = {
            "users": chance.choice((None, ("u1",), ("u*",))),
            "agents": chance.choice((None, None, ("m2",))),
            "roles": chance.choice((None, None, None, ("r1",))),
            "skills": chance.choice((None, ("a",), ("a*",), ("b_c",))),
            "tools": chance.choice((None, None, ("t1",), ("t*", "x"))),
            "verbs": chance.choice((None, None, ("read",))),
            "resources": chance.choice((None, None, ("a",), ("docs/**",))),
        }
        example = Example(
            user="u1", agent="m2", skill=(fields["skills"] or ("a",))[0].replace("*", ""), tool="t1", verb="read",
            resource="docs/x" if fields["resources"] == ("docs/**",) else "a", roles=frozenset({"r1"}),
        )  # fmt: skip
        effect = chance.choice(("allow", "ask", "deny"))
        rules.append(Rule(id=f"r{number}", effect=effect, match=(example,), **fields))
    return PolicySet(shuffled(chance, rules), chance.choice((None, *Mode)))


ATTEMPTS = tuple(
    Attempt(user, agent, skill, name, verb, resource, roles)  # type: ignore[arg-type]
    for user, agent, skill, (name, verb, resource), roles in product(
        ("u1", "u2"),
        ("m1", "m2"),
        SKILLS,
        ((None, "write", None), ("t1", "read", "a"), ("t2", "write", "docs/x"), ("x", "write", None)),
        (frozenset(), frozenset({"r1"})),
    )
)


def test_g3_g14_the_order_of_rules_does_not_matter() -> None:
    chance = Random(15)
    asked_in_all, said = 0, 0
    while asked_in_all < REQUESTS:
        known = policies(chance)
        other = replace(known, rules=shuffled(chance, known.rules))
        for attempt in ATTEMPTS:
            assert known.judge(attempt) == other.judge(attempt)
            said += known.judge(attempt).effect is not None
        asked_in_all += len(ATTEMPTS)
    assert said > REQUESTS // 10


def test_g2_g3_the_order_of_grants_requirements_and_guards_does_not_matter() -> None:
    chance = Random(16)
    for request, facts in asked(chance, REQUESTS):
        one = decide(request, facts)
        assert decide(request, replace(facts, grants=shuffled(chance, facts.grants))) == one
        other = decide(
            request,
            replace(facts, guards=shuffled(chance, facts.guards), requirements=shuffled(chance, facts.requirements)),
        )
        assert (other.effect, other.layer) == (one.effect, one.layer)
        assert set(other.missing) == set(one.missing)


def test_g6_the_order_of_skills_and_groups_does_not_matter() -> None:
    chance = Random(17)
    for world in worlds(chance, 3_000):
        known = world.capabilities
        own = [group for group_id, group in known.groups.items() if group_id.kind == "declared"]
        other = Capabilities(
            shuffled(chance, list(known.skills.values())),
            shuffled(chance, own),
            [name for name, groups in known.groups_of.items() if not groups],
            known.system_tools,
        )
        assert list(world._replace(capabilities=other).call.tools()) == list(world.call.tools())


# --- 8. what a simulation says is what the change brings -------------------------------------------------------------


def test_g14_simulating_a_policy_is_deciding_after_it_was_applied(tmp_path: Any) -> None:
    chance = Random(18)
    done = gained = lost = 0
    while done < REQUESTS:
        before, proposed = policies(chance), policies(chance)
        if not proposed.rules:
            continue
        path = tmp_path / "proposed.json"
        rules = [rule.model_dump(mode="json", exclude_none=True) for rule in proposed.rules]
        mode = {} if proposed.mode is None else {"mode": str(proposed.mode)}
        path.write_text(json.dumps({"version": 1, "rules": rules, **mode}), encoding="utf-8")
        applied = load_policies([path])
        assert applied.mode == proposed.mode
        view = TurnView("u1", "m1", Rights(), EVERYTHING, (), before)
        simulated, real = replace(view, policies=proposed), TurnView("u1", "m1", Rights(), EVERYTHING, (), applied)
        for request, facts in asked(chance, 250):
            name = (request.skill_id, "t1", request.verb, request.resource)
            mode_ = applied.mode or Mode.DEFAULT
            would = decide(request, replace(facts, policy=simulated.judge(*name), mode=mode_))
            assert would == decide(request, replace(facts, policy=real.judge(*name), mode=mode_))
            if done % 4 == 0:  # that something changed at all
                was = decide(request, replace(facts, policy=view.judge(*name), mode=before.mode or Mode.DEFAULT))
                gained += RANK[would.effect] > RANK[was.effect]
                lost += RANK[would.effect] < RANK[was.effect]
            done += 1
    assert gained > 200
    assert lost > 200


# --- 9. expiry is half open ------------------------------------------------------------------------------------------


def test_g2_expiry_is_half_open_in_every_zone() -> None:
    """Ruling 12.29: ``now >= expires`` is expired."""
    chance = Random(19)
    request = GateRequest("t1", "u1", "m1", "a", "1", "tool:t1")
    needed = (PermissionRequirement("memory:read", Risk.L1),)
    given = Grant("g1", "t1", "u1", "a", "1", "memory:read", GrantScope.USER, None, None, GrantStatus.ACTIVE, NOW, "u1")
    allowed = 0
    zones = [timezone(timedelta(hours=hours)) for hours in (-11, -3, 0, 5, 14)]
    for _ in range(REQUESTS):
        now = NOW + timedelta(microseconds=chance.randint(-3, 3))
        expires = NOW + timedelta(microseconds=chance.randint(-3, 3))
        grant = given._replace(expires_at=expires.astimezone(chance.choice(zones)))
        facts = Facts(needed, (grant,), True, now.astimezone(chance.choice(zones)), UNRESTRICTED)
        assert decide(request, facts).allowed is (now < expires)
        allowed += now < expires
    assert REQUESTS // 4 < allowed < REQUESTS // 2
