"""The gate's half of a background job: whether its skill may, at this moment, for its owner (G4, B5, B6).

What a job may use is resolved anew for every execution, outside any transaction (G9, ruling 12.22). The decision falls
inside the transaction that claims it, over the grants and bindings of that moment, for a whole batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from prowess.access.gate import decide
from prowess.access.guards import Guard, ask_guards
from prowess.access.model import Decision, Facts, GateRequest, Layer, Mode, PermissionRequirement, RuleVerdict, Verdict
from prowess.access.store import active_grants_of
from prowess.chat.model import Agent, ChatRef
from prowess.chat.store import find_agent
from prowess.errors import Denied
from prowess.events.log import EventLog
from prowess.skills.bindings import is_enabled
from prowess.skills.catalog import Catalog
from prowess.skills.store import Binding, TargetKind, bindings_of
from prowess.turns.definitions import BackgroundSkill, SkillDefinition
from prowess.turns.facts import FactReader
from prowess.turns.request import TurnRequest
from prowess.turns.view import Rights, TurnView, stricter

ORIGIN_PREFIX = "job:"


class BackgroundCall(NamedTuple):
    """A job on its way: whose it is, where it will speak, and which version of which skill is pinned."""

    job_id: str
    tenant: str
    user: str
    agent: str
    chat: ChatRef
    skill_id: str
    version: str


class Prepared(NamedTuple):
    """What was learned of a call outside the transaction."""

    call: BackgroundCall
    skill: BackgroundSkill
    agent: Agent
    view: TurnView
    reach: Verdict
    guards: tuple[RuleVerdict, ...]
    requirements: tuple[PermissionRequirement, ...]


class Unserved(NamedTuple):
    """A call that cannot be decided at all: ``version_missing``, ``agent_not_found``, ``surface_unresolved``."""

    call: BackgroundCall
    code: str


class BackgroundGate:
    """Asks the gate about jobs."""

    def __init__(
        self,
        log: EventLog,
        reader: FactReader,
        rights: Callable[[TurnRequest], Rights],
        guards: Sequence[Guard] = (),
    ) -> None:
        """``rights`` resolves what a call may use; it may raise ``Denied('surface_unresolved')``."""
        self._log = log
        self._reader = reader
        self._rights = rights
        self._guards = tuple(guards)

    def prepare(self, calls: Iterable[BackgroundCall], newcomer: Agent | None = None) -> dict[str, Prepared | Unserved]:
        """By job id, all that takes its time: surfaces and guards of many calls of one tenant. Not inside a write.

        ``newcomer``: an agent that is made with the job.
        """
        wanted = list(calls)
        rights: dict[tuple[str, str], Rights | None] = {}
        for call in wanted:
            if (call.user, call.agent) not in rights:
                rights[call.user, call.agent] = self._resolve(call)
        with self._log.database.read() as connection:
            tenant = wanted[0].tenant if wanted else ""
            agents = {agent: find_agent(connection, tenant, agent) for agent in {call.agent for call in wanted}}
            catalog = self._reader.catalog(connection, tenant)
            if newcomer is not None and agents.get(newcomer.id) is None:
                agents[newcomer.id] = newcomer
            views: dict[tuple[str, str], TurnView] = {}
            looks = _Looks(catalog)
            found: dict[str, Prepared | Unserved] = {}
            for call in wanted:
                whose = (call.user, call.agent)
                agent, held = agents[call.agent], rights[whose]
                if agent is None or not agent.usable_by(call.user):
                    found[call.job_id] = Unserved(call, "agent_not_found")
                elif held is None:
                    found[call.job_id] = Unserved(call, "surface_unresolved")
                else:
                    view = views.get(whose)
                    if view is None:
                        # The version is pinned, so that no choice is asked for here; whether the skill is enabled is
                        # asked inside the transaction.
                        view = views[whose] = self._reader.view_of(
                            connection, catalog, call.tenant, call.user, agent, held, ()
                        )
                    found[call.job_id] = looks.at(call, agent, view)
        return {job_id: self._guarded(item) if isinstance(item, Prepared) else item for job_id, item in found.items()}

    def decide(self, connection: Connection, prepared: Sequence[Prepared]) -> dict[str, Decision]:
        """The gate's answers at this moment, by job id; all calls of one tenant."""
        if not prepared:
            return {}
        calls = [item.call for item in prepared]
        grants = {
            skill: active_grants_of(connection, calls[0].tenant, {call.user for call in calls}, skill)
            for skill in {call.skill_id for call in calls}
        }
        users, agents = {call.user for call in calls}, {call.agent for call in calls}
        bindings = bindings_of(connection, calls[0].tenant, users, agents)
        now = self._log.clock.now()
        answers: dict[str, Decision] = {}
        for item in prepared:
            call = item.call
            request = GateRequest(
                call.tenant, call.user, call.agent, call.skill_id, call.version, f"job:{call.skill_id}", call.job_id
            )
            facts = Facts(
                requirements=item.requirements,
                grants=grants[call.skill_id].get(call.user, ()),
                enabled=not bindings or is_enabled(call.skill_id, _chosen(bindings, call)),
                now=now,
                reach=item.reach,
                policy=item.view.judge(call.skill_id),
                guards=item.guards,
                # Nobody is there to be asked (B14).
                mode=stricter(item.view.rights.mode, Mode.DONT_ASK),
            )
            answers[call.job_id] = decide(request, facts)
        return answers

    def _resolve(self, call: BackgroundCall) -> Rights | None:
        request = TurnRequest(
            tenant=call.tenant,
            user=call.user,
            agent=call.agent,
            text="",
            message_id=call.job_id,
            conversation=call.chat.id if call.chat.kind == "conversation" else None,
            group=call.chat.id if call.chat.kind == "group" else None,
            origin=f"{ORIGIN_PREFIX}{call.job_id}",
        )
        try:
            return self._rights(request)
        except Denied:
            return None  # the audit row was written where it was asked

    def _guarded(self, item: Prepared) -> Prepared:
        if not self._guards:
            return item
        attempt = item.view.attempt(item.call.skill_id, None, "write", None)
        verdicts = ask_guards(self._guards, attempt)
        return item._replace(guards=verdicts)


def _chosen(bindings: Mapping[tuple[TargetKind, str], list[Binding]], call: BackgroundCall) -> list[Binding]:
    return [*bindings.get(("user", call.user), ()), *bindings.get(("agent", call.agent), ())]


class _Looks:
    """What the catalog and the rights say of many calls, which mostly is the same for all of them."""

    def __init__(self, catalog: Catalog[SkillDefinition]) -> None:
        self._catalog = catalog
        self._needed: dict[tuple[str, str], tuple[PermissionRequirement, ...]] = {}
        self._reaches: dict[tuple[str, str, str, int], Verdict] = {}

    def at(self, call: BackgroundCall, agent: Agent, view: TurnView) -> Prepared | Unserved:
        skill_id, version = skill = call.skill_id, call.version
        entry = self._catalog.get(skill_id, version)
        if entry is None or entry.removed or not isinstance(entry.definition, BackgroundSkill):
            return Unserved(call, "version_missing")
        requirements = self._needed.get(skill)
        if requirements is None:
            requirements = self._needed[skill] = entry.manifest.permission_requirements
        if view.policies.rules:
            reach = _reach(view, call, entry.source)  # rules may name the user
        else:
            # By identity, which costs less than equality: the rights of the whole batch are alive here.
            key = (call.agent, skill_id, version, id(view.rights))
            known = self._reaches.get(key)
            reach = known or self._reaches.setdefault(key, _reach(view, call, entry.source))
        return Prepared(call, entry.definition, agent, view, reach, (), requirements)


def _reach(view: TurnView, call: BackgroundCall, source: str) -> Verdict:
    if view.sees(call.skill_id, call.version, source):
        return Verdict(True, None, "granted")
    return Verdict(False, Layer.ENTITLEMENT, "not_granted")
