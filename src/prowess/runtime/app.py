"""The Prowess façade: what people and programs touch. Faces call this and nothing below it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from prowess.access.model import Grant
from prowess.chat.model import Agent, ChatRef, Conversation, Message
from prowess.errors import InvalidInput
from prowess.events.followers import Follower, Handler
from prowess.events.model import Actor, Event
from prowess.kernel.clock import Clock
from prowess.kernel.ids import IdSource, check_id
from prowess.memory.model import Memory, MemoryLayer
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.runtime.wiring import Parts, wire
from prowess.skills.catalog import CatalogEntry
from prowess.skills.names import normalise_skill_name
from prowess.skills.service import Added, find_entry
from prowess.skills.skill_md import read_skill_folder
from prowess.skills.skill_writer import Form
from prowess.skills.store import Binding
from prowess.turns.definitions import SkillDefinition
from prowess.turns.dispatch import ToolOutcome
from prowess.turns.plan import TurnPlan
from prowess.turns.ports import Voice
from prowess.turns.request import TurnRequest, TurnResult
from prowess.turns.runs import Run, list_runs
from prowess.turns.safety import SafetyPolicy
from prowess.turns.sessions.model import Session

OPERATOR = Actor("operator", "operator")


class Prowess:
    """One open runtime over one database. Safe to share between threads; close it, or use it in a ``with`` block.

    Every method takes ``tenant`` (default ``"default"``) and raises the errors of ``prowess.errors``.
    """

    def __init__(self, parts: Parts) -> None:
        """Use ``prowess.open``."""
        self._parts = parts

    def __enter__(self) -> Prowess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database."""
        self._parts.database.close()

    # --- turns (T1) ---

    def turn(
        self,
        *,
        user: str,
        agent: str,
        message_id: str,
        text: str,
        conversation: str | None = None,
        group: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> TurnResult:
        """One message and its reply. Exactly one of ``conversation`` and ``group``.

        Raises ``InvalidInput``, ``NotFound``, ``Conflict`` (``message_id_reused``, ``session_changed``),
        ``LimitExceeded`` and ``VoiceError``; after any of them the same message id may be sent again.
        """
        return self._parts.engine.turn(TurnRequest(tenant, user, agent, text, message_id, conversation, group))

    async def aturn(
        self,
        *,
        user: str,
        agent: str,
        message_id: str,
        text: str,
        conversation: str | None = None,
        group: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> TurnResult:
        """The asynchronous twin of ``turn``."""
        request = TurnRequest(tenant, user, agent, text, message_id, conversation, group)
        async for piece in self._parts.engine.stream(request):
            if isinstance(piece, TurnResult):
                return piece
        raise AssertionError("a stream ends with its result")

    def stream(
        self,
        *,
        user: str,
        agent: str,
        message_id: str,
        text: str,
        conversation: str | None = None,
        group: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> AsyncIterator[str | TurnResult]:
        """Pieces of the reply as they come, then the ``TurnResult``."""
        return self._parts.engine.stream(TurnRequest(tenant, user, agent, text, message_id, conversation, group))

    def begin(self, request: TurnRequest) -> TurnPlan:
        """The first third of a turn, for somebody else's agent loop: instruction and tools. Raises as ``turn``."""
        return self._parts.engine.begin(request)

    def call(self, plan: TurnPlan, tool: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """A tool call of that loop, through the same gate, limits and records. A refusal is an outcome."""
        return self._parts.engine.call(plan, tool, arguments)

    def finish(self, plan: TurnPlan, reply: str) -> TurnResult:
        """The last third: store the reply. Raises ``InvalidInput`` for an unusable reply."""
        return self._parts.engine.finish(plan, reply)

    def fail(self, plan: TurnPlan, error: Exception) -> None:
        """Instead of ``finish``: the loop could not reply."""
        self._parts.engine.fail(plan, error)

    # --- chat ---

    def create_agent(
        self,
        agent: str,
        *,
        name: str | None = None,
        persona: str = "",
        language: str = "en",
        owner: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Agent:
        """A new agent; ``owner`` null: it is the tenant's. Raises ``Conflict('agent_exists')``."""
        return self._parts.chat.create_agent(
            actor=OPERATOR, tenant=tenant, agent=agent, name=name, persona=persona, language=language, owner=owner
        )

    def agents(self, *, tenant: str = DEFAULT_TENANT) -> list[Agent]:
        """The tenant's agents."""
        return self._parts.chat.agents(tenant)

    def conversations(self, *, user: str, tenant: str = DEFAULT_TENANT) -> list[Conversation]:
        """The user's conversations, the latest first."""
        return self._parts.chat.conversations(tenant, user)

    def messages(
        self,
        conversation: str | None = None,
        *,
        group: str | None = None,
        user: str | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Message]:
        """The latest messages of a conversation or group, oldest first; with ``user``, only where it is theirs."""
        chat = ChatRef("conversation", conversation or "") if group is None else ChatRef("group", group)
        return self._parts.chat.messages(tenant, chat, user=user, limit=limit)

    # --- permissions (G2, G5) ---

    def grant(
        self,
        *,
        user: str,
        skill: str,
        code: str,
        agent: str | None = None,
        resource: str | None = None,
        expires_at: datetime | None = None,
        tenant: str = DEFAULT_TENANT,
        actor: Actor | None = None,
    ) -> Grant:
        """Consent of the user to one declared code of a skill; for one agent where ``agent`` is given.

        Raises ``NotFound`` (``skill_not_found``, ``agent_not_found``), ``InvalidInput`` (``code_not_declared``,
        ``code_not_grantable``, ``expiry_in_past``).
        """
        check_id(user, "user")
        manifest = find_entry(self._parts.skills.catalog(tenant), skill).manifest
        if agent is not None:
            self._parts.chat.require_agent(tenant, agent, user)
        return self._parts.grants.grant(
            actor=actor or Actor("user", user),
            tenant=tenant,
            user=user,
            skill=(manifest.id, manifest.version),
            declared=manifest.permission_requirements,
            code=code,
            agent=agent,
            resource=resource,
            expires_at=expires_at,
        )

    def revoke(
        self,
        *,
        user: str,
        skill: str,
        code: str,
        agent: str | None = None,
        tenant: str = DEFAULT_TENANT,
        actor: Actor | None = None,
    ) -> int:
        """Take back the user's grants of a code, effective at the next operation.

        Raises ``NotFound('grant_not_found')``.
        """
        skill_id = normalise_skill_name(skill)  # whether or not the skill is still there
        return self._parts.grants.revoke(
            actor=actor or Actor("user", user), tenant=tenant, user=user, skill=skill_id, code=code, agent=agent
        )

    def grants(self, *, user: str, with_revoked: bool = False, tenant: str = DEFAULT_TENANT) -> list[Grant]:
        """The user's grants, newest first."""
        return self._parts.grants.list(tenant, user, with_revoked=with_revoked)

    # --- memory (M4) ---

    def add_memory(
        self,
        user: str,
        agent: str,
        text: str,
        importance: float = 0.5,
        *,
        layer: MemoryLayer | str = MemoryLayer.L3,
        keep: timedelta | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Memory:
        """Remember something of the user for the agent. See ``MemoryService.add``."""
        return self._parts.memory.add(
            actor=Actor("user", user),
            tenant=tenant,
            user=user,
            agent=agent,
            text=text,
            importance=importance,
            layer=_layer(layer),
            keep=keep,
        )

    def memories(
        self, *, user: str, agent: str | None = None, limit: int | None = None, tenant: str = DEFAULT_TENANT
    ) -> list[Memory]:
        """What is remembered of the user, newest first."""
        return self._parts.memory.list(tenant, user, agent, limit=limit)

    def correct_memory(
        self, *, user: str, memory_id: str, text: str, importance: float | None = None, tenant: str = DEFAULT_TENANT
    ) -> Memory:
        """Replace what is remembered. Raises ``NotFound('memory_not_found')``."""
        return self._parts.memory.correct(
            actor=Actor("user", user), tenant=tenant, user=user, memory_id=memory_id, text=text, importance=importance
        )

    def delete_memory(self, *, user: str, memory_id: str, tenant: str = DEFAULT_TENANT) -> None:
        """Delete for good. Raises ``NotFound('memory_not_found')``."""
        self._parts.memory.delete(actor=Actor("user", user), tenant=tenant, user=user, memory_id=memory_id)

    def export_memories(
        self, *, user: str, agent: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> list[dict[str, Any]]:
        """All that is remembered of the user, as JSON objects."""
        found = self._parts.memory.export(actor=Actor("user", user), tenant=tenant, user=user, agent=agent)
        return [memory.to_json() for memory in found]

    # --- skills (S6, T6) ---

    def skills(self, *, tenant: str = DEFAULT_TENANT) -> list[CatalogEntry[SkillDefinition]]:
        """The current version of every skill in the catalog, by id."""
        return list(self._parts.skills.catalog(tenant))

    def skill(
        self, skill: str, version: str | None = None, *, tenant: str = DEFAULT_TENANT
    ) -> CatalogEntry[SkillDefinition]:
        """One skill, at its current version where none is given. Raises ``NotFound``."""
        return find_entry(self._parts.skills.catalog(tenant), skill, version)

    def skill_versions(self, skill: str, *, tenant: str = DEFAULT_TENANT) -> list[CatalogEntry[SkillDefinition]]:
        """Every version of a skill that is in use, newest first. Raises ``NotFound('skill_not_found')``."""
        catalog = self._parts.skills.catalog(tenant)
        found = find_entry(catalog, skill)
        return [entry for entry in catalog.versions(found.manifest.id) if not entry.removed]

    def candidates(self, *, user: str, agent: str, tenant: str = DEFAULT_TENANT) -> list[CatalogEntry[SkillDefinition]]:
        """The skills that may serve this user with this agent."""
        return list(self._parts.skills.candidates(tenant, user, agent))

    def add_skill(self, path: str | Path, *, tenant: str = DEFAULT_TENANT) -> Added:
        """Take a skill folder into the catalog. Raises ``SkillFileError``, ``Conflict``. See ``SkillService.add``."""
        loaded = read_skill_folder(path)
        source = str(loaded.path.resolve())
        return self._parts.skills.add(actor=OPERATOR, tenant=tenant, skill=loaded, source=source)

    def remove_skill(self, skill: str, version: str | None = None, *, tenant: str = DEFAULT_TENANT) -> int:
        """Take one or all versions out of use. Raises ``NotFound``, ``InvalidInput('skill_built_in')``."""
        return self._parts.skills.remove(actor=OPERATOR, tenant=tenant, skill=skill, version=version)

    def export_skill(
        self,
        skill: str,
        destination: str | Path,
        *,
        version: str | None = None,
        form: Form = "standard",
        tenant: str = DEFAULT_TENANT,
    ) -> Path:
        """Write a skill as a folder below ``destination``; ``form`` as in ``docs/skills.md``."""
        return self._parts.skills.export(
            tenant=tenant, skill=skill, version=version, destination=Path(destination), form=form
        )

    def bind_skill(
        self,
        skill: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        enabled: bool | None = None,
        pin: str | None = None,
        unpin: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> Binding:
        """Enable, disable, pin or unpin a skill for a user or for an agent; exactly one of them.

        Raises ``NotFound`` (``skill_not_found``, ``version_not_found``), ``InvalidInput('target_missing')``.
        """
        if (user is None) == (agent is None):
            raise InvalidInput("target_missing", field="user")
        if user is not None:
            return self._parts.skills.bind(
                actor=Actor("user", user),
                tenant=tenant,
                target=("user", check_id(user, "user")),
                skill=skill,
                enabled=enabled,
                pin=pin,
                unpin=unpin,
            )
        return self._parts.skills.bind(
            actor=OPERATOR,
            tenant=tenant,
            target=("agent", check_id(agent, "agent")),
            skill=skill,
            enabled=enabled,
            pin=pin,
            unpin=unpin,
        )

    # --- records (W12, T8, R1) ---

    def sessions(
        self, *, user: str, live_only: bool = False, limit: int = 50, tenant: str = DEFAULT_TENANT
    ) -> list[Session]:
        """The user's workflow sessions; faces show ``Session.to_json`` only, which holds no state."""
        return self._parts.sessions.list(tenant, user, live_only=live_only, limit=limit)

    def cancel_session(self, session_id: str, *, user: str, tenant: str = DEFAULT_TENANT) -> Session:
        """Cancel a live session of the user. Raises ``NotFound``, ``Conflict`` (``session_not_live``)."""
        return self._parts.sessions.cancel(actor=Actor("user", user), tenant=tenant, user=user, session_id=session_id)

    def runs(self, *, user: str, skill: str | None = None, limit: int = 100, tenant: str = DEFAULT_TENANT) -> list[Run]:
        """The user's runs, newest first."""
        with self._parts.database.read() as connection:
            return list_runs(connection, tenant, user, skill=skill, limit=limit)

    def events(self, *, after: int = 0, limit: int = 1000, tenant: str = DEFAULT_TENANT) -> list[Event]:
        """Events with a sequence number above ``after``, oldest first."""
        return self._parts.log.after(tenant, after, limit)

    def audit(
        self,
        *,
        user: str | None = None,
        skill: str | None = None,
        decision: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Event]:
        """Audit events, newest first: decisions, outcomes, changes of consent, catalog and memory."""
        return self._parts.log.audit(tenant, user=user, skill=skill, decision=decision, since=since, limit=limit)

    def follow(self, name: str, handler: Handler, *, batch: int = 200) -> Follower:
        """A follower of the log with a stored cursor; call its ``catch_up``."""
        return Follower(self._parts.log, name, handler, batch=batch)


def _layer(name: MemoryLayer | str) -> MemoryLayer:
    try:
        return MemoryLayer(name)
    except ValueError:
        raise InvalidInput("bad_layer", field="layer", layer=str(name)[:20]) from None


def open(
    url: str,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    voice: Voice | None = None,
    skills: Iterable[SkillDefinition] = (),
    safety: SafetyPolicy | None = None,
    create_missing: bool = True,
) -> Prowess:
    """Open a database (``sqlite:///file.db``, ``sqlite://``, ``postgresql://…``), bring it to this schema, and serve.

    ``skills`` are definitions of your own beside the built-in ones; ``voice`` speaks the replies (default: an offline,
    deterministic one that says so); ``safety`` replaces the rules of the safety response; ``clock`` and ``ids`` are for
    tests. ``create_missing``: unknown agents and conversations are made on first use.

    Raises ``StorageError`` (``database_url``, ``database_unavailable``, ``database_newer``, ``postgres_missing``),
    ``InvalidInput`` and ``Conflict`` for definitions that registration refuses (X1, S7).
    """
    return Prowess(
        wire(url, clock=clock, ids=ids, voice=voice, skills=skills, safety=safety, create_missing=create_missing)
    )


def result_to_json(result: TurnResult) -> dict[str, Any]:
    """A turn's result as the JSON of ``docs/contracts.md``."""
    return asdict(result)
