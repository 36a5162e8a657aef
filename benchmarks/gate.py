"""CPU of one live decision, against Cedar and casbin over the same grants in the same run.

Ours: the grants are read from an SQLite file at that moment, then the gate decides, so that a revocation is seen by the
next call. The peers answer from memory, in the fastest way that they offer: Cedar with policies and entities parsed
beforehand, casbin's fast enforcer with an index over all three fields. Each question is put together anew on each side.
``peer_over_live`` is thus our decision with its read against theirs without one; ``peer_over_decide`` is like against
like: the facts are in memory on both sides.

    prowess bench gate [DECISIONS [GRANTS…]]
"""

from __future__ import annotations

import gc
import json
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

SIZES = (1_000, 100_000)
SKILLS = 10
"""a user has granted one code to each of as many skills"""
ROUNDS = 9
NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
CODE = "memory:read"
TARGETS = {
    "peer_over_live": "at least 10",
    "peer_over_decide": "at least 10",
    "live_growth": "at most 2",
    "explained_over_decide": "at most 10",
    "frozen_us": "at most 2",
    "bytes_per_grant": "at most 300",
}

_CEDAR = "permit(principal, action, resource) when { principal in resource };"
_CASBIN = """
[request_definition]
r = sub, obj, act

[policy_definition]
p = sub, obj, act

[policy_effect]
e = some(where (p.eft == allow))

[matchers]
m = r.sub == p.sub && r.obj == p.obj && r.act == p.act
"""


class Question(NamedTuple):
    """Who asks for which skill, and whether there is a grant for it."""

    user: str
    skill: str
    granted: bool


def run(args: list[str]) -> dict[str, Any]:
    """``args``: decisions a round (default 2000), then the numbers of grants (default 1000 100000)."""
    decisions, *sizes = [int(arg) for arg in args] or [2_000]
    figures: dict[str, dict[str, float]] = {}
    peers: dict[str, dict[str, float]] = {}
    for size in sizes or SIZES:
        with tempfile.TemporaryDirectory() as folder:
            figures[str(size)], peers[str(size)] = _measure(size, decisions, Path(folder))
    live = [found["live_us"] for found in figures.values()]
    times = [min(peers[size].values()) / figures[size]["live_us"] for size in figures]
    held = [min(peers[size].values()) / figures[size]["decide_us"] for size in figures]
    return {
        "name": "gate",
        "figures": {
            **{f"{key}_{size}": value for size, found in figures.items() for key, value in found.items()},
            "live_growth": round(live[-1] / live[0], 2),
            "decisions": decisions,
        },
        "peer": {f"{key}_{size}": value for size, found in peers.items() for key, value in found.items()},
        "ratio": round(1 / min(times), 4),
        "peer_over_live": round(min(times), 2),
        "peer_over_decide": round(min(held), 2),
        "targets": TARGETS,
    }


def _measure(size: int, decisions: int, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    grants = [(f"user-{number // SKILLS}", f"skill-{number % SKILLS}") for number in range(size)]
    chance = random.Random(size)
    asked = [_question(chance, grants) for _ in range(decisions)]
    with closing(_Ours(folder / "prowess.db", grants)) as ours:
        sides: dict[str, Callable[[list[Question]], None]] = {
            "live_us": ours.live,
            "decide_us": ours.decide,
            "explained_us": ours.explained,
            "frozen_us": ours.frozen,
            "frozen_first_us": ours.frozen_first,
            "cedar_us": _Cedar(grants).ask,
            "casbin_us": _Casbin(grants).ask,
        }
        spent = _least(sides, asked)
        alone = _least({"live_own_transaction_us": ours.live_alone}, asked)
        memory = ours.bytes_per_grant()
    peers = {key: spent.pop(key) for key in ("cedar_us", "casbin_us")}
    spent["explained_over_decide"] = round(spent["explained_us"] / spent["decide_us"], 2)
    return {**spent, **alone, "bytes_per_grant": memory}, peers


def _question(chance: random.Random, grants: list[tuple[str, str]]) -> Question:
    user, skill = chance.choice(grants)
    return Question(user, skill, True) if chance.random() < 0.75 else Question(user, f"{skill}-other", False)


def _least(sides: dict[str, Callable[[list[Question]], None]], asked: list[Question]) -> dict[str, float]:
    """Microseconds a decision: each side in turn, several rounds, the least of each."""
    spent = dict.fromkeys(sides, float("inf"))
    for side in sides.values():
        side(asked)
    gc.collect()
    gc.freeze()  # or the collector walks the peers' policies in whichever side's turn it happens to run
    for _ in range(ROUNDS):
        for name, side in sides.items():
            started = time.process_time()
            side(asked)
            spent[name] = min(spent[name], (time.process_time() - started) * 1e6 / len(asked))
    gc.unfreeze()
    return {name: round(value, 3) for name, value in spent.items()}


class _Ours:
    def __init__(self, path: Path, grants: list[tuple[str, str]]) -> None:
        from prowess.access.capabilities import UNRESTRICTED, CallSurface, Capabilities, SkillCapability
        from prowess.access.model import PermissionRequirement, Risk
        from prowess.access.surface import CapabilitySurface, GroupId, SkillKey
        from prowess.db.engine import Database
        from prowess.db.schema import migrate

        self._grants = grants
        self._needed = (PermissionRequirement(CODE, Risk.L1),)
        self._reach = UNRESTRICTED
        self._database = Database(f"sqlite:///{path}")
        migrate(self._database)
        self._store()
        skills = [f"skill-{number}" for number in range(SKILLS)]
        capabilities = Capabilities(SkillCapability(SkillKey(skill), frozenset({f"tool.{skill}"})) for skill in skills)
        surface = CapabilitySurface(skills=[*skills, *(f"skill-{number}" for number in range(len(grants)))])
        self._surface = CallSurface(capabilities, (surface,), frozenset(map(GroupId.of_skill, skills)))

    def _store(self) -> None:
        from sqlalchemy import insert

        from prowess.access.store import grants as table

        rows = [
            {
                "id": f"grant-{number}",
                "tenant": "default",
                "user_id": user,
                "skill_id": skill,
                "skill_version": "1.0.0",
                "code": CODE,
                "scope": "user",
                "agent_id": "",
                "resource": "",
                "status": "active",
                "granted_by": user,
                "granted_at": 1_772_000_000_000 + number,
                "updated_at": 1_772_000_000_000 + number,
            }
            for number, (user, skill) in enumerate(self._grants)
        ]
        random.Random(len(rows)).shuffle(rows)  # people consent at any time, not user by user
        with self._database.write() as connection:
            connection.execute(insert(table), rows)

    def live(self, asked: list[Question]) -> None:
        """Inside one transaction, as a call's decision and its record are."""
        from prowess.access.gate import decide
        from prowess.access.model import Facts, GateRequest
        from prowess.access.store import active_grants

        needed, reach = self._needed, self._reach
        with self._database.read() as connection:
            for user, skill, granted in asked:
                request = GateRequest("default", user, "mira", skill, "1.0.0", "tool:recall")
                grants = active_grants(connection, "default", user, skill)
                decision = decide(request, Facts(needed, grants, True, NOW, reach))
                assert decision.allowed is granted

    def live_alone(self, asked: list[Question]) -> None:
        """A transaction for each."""
        for question in asked:
            self.live([question])

    def decide(self, asked: list[Question]) -> None:
        from prowess.access.gate import decide
        from prowess.access.model import Facts, GateRequest

        grants = self._read(asked)
        for user, skill, granted in asked:
            request = GateRequest("default", user, "mira", skill, "1.0.0", "tool:recall")
            assert decide(request, Facts(self._needed, grants[user, skill], True, NOW, self._reach)).allowed is granted

    def explained(self, asked: list[Question]) -> None:
        from prowess.access.explain import explain
        from prowess.access.model import Facts, GateRequest

        grants = self._read(asked)
        for user, skill, granted in asked:
            request = GateRequest("default", user, "mira", skill, "1.0.0", "tool:recall")
            found = explain(request, Facts(self._needed, grants[user, skill], True, NOW, self._reach))
            assert found.decision.allowed is granted

    def frozen(self, asked: list[Question]) -> None:
        """Of a surface that keeps its answers for as long as the call lasts."""
        execute = self._surface.execute
        for _, skill, granted in asked:
            assert execute(f"tool.{skill}").allowed is granted

    def frozen_first(self, asked: list[Question]) -> None:
        """The same where nothing was asked of the surface before."""
        for _, skill, granted in asked:
            assert replace(self._surface).execute(f"tool.{skill}").allowed is granted

    def bytes_per_grant(self) -> int:
        """Of every grant at once, as the gate holds it, the strings included."""
        from prowess.access.store import active_grants

        keys = self._grants[:10_000]
        with self._database.read() as connection:
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            held = [active_grants(connection, "default", user, skill)[0] for user, skill in keys]
            after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return round((after - before) / len(held))

    def close(self) -> None:
        self._database.close()

    def _read(self, asked: list[Question]) -> dict[tuple[str, str], Any]:
        from prowess.access.store import active_grants

        if not hasattr(self, "_known"):
            with self._database.read() as connection:
                self._known = {(q.user, q.skill): active_grants(connection, "default", q.user, q.skill) for q in asked}
        return self._known


class _Cedar:
    """One policy over entities: a user is a child of each capability that they consented to."""

    def __init__(self, grants: list[tuple[str, str]]) -> None:
        import cedarpy

        parents: dict[str, list[dict[str, str]]] = {}
        for user, skill in grants:
            parents.setdefault(user, []).append({"type": "Consent", "id": f"{skill} {CODE}"})
        users = [{"uid": {"type": "User", "id": user}, "attrs": {}, "parents": held} for user, held in parents.items()]
        self._ask = cedarpy.is_authorized
        self._allow = cedarpy.Decision.Allow
        self._policies = cedarpy.PolicySet.from_str(_CEDAR)
        self._entities = cedarpy.Entities.from_json_str(json.dumps(users))

    def ask(self, asked: list[Question]) -> None:
        for user, skill, granted in asked:
            request = {
                "principal": f'User::"{user}"',
                "action": 'Action::"use"',
                "resource": f'Consent::"{skill} {CODE}"',
                "context": {},
            }
            answer = self._ask(request, self._policies, self._entities)
            assert (answer.decision == self._allow) is granted


class _Casbin:
    """Subject, object and action in an index of the fast enforcer, so that it evaluates one policy at most."""

    def __init__(self, grants: list[tuple[str, str]]) -> None:
        import casbin
        from casbin.model.model_fast import FastModel

        order = (0, 1, 2)
        model = FastModel(order)
        model.load_model_from_text(_CASBIN)
        policies = model["p"]["p"].policy
        for user, skill in grants:
            policies.append((user, skill, CODE))  # add_policy counts all of them each time
        self._enforce = casbin.FastEnforcer(model, cache_key_order=order).enforce

    def ask(self, asked: list[Question]) -> None:
        enforce = self._enforce
        for user, skill, granted in asked:
            assert enforce(user, skill, CODE) is granted
