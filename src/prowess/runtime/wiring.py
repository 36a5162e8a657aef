"""The one composition root: every object of the runtime is made and joined here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import prowess.secrets.store  # noqa: F401 - its table is part of the schema
from prowess.access.service import GrantService
from prowess.adapters.voices.offline import OfflineVoice
from prowess.builtin import builtin_skills
from prowess.chat.service import ChatService
from prowess.db.clock import postgres_clock
from prowess.db.engine import Database
from prowess.db.schema import migrate
from prowess.events.log import EventLog
from prowess.kernel.clock import Clock, SystemClock
from prowess.kernel.ids import IdSource, RandomIds
from prowess.memory.service import MemoryService
from prowess.skills.catalog import CatalogService
from prowess.skills.service import SkillService, served_manifest
from prowess.skills.store import StoredSkill
from prowess.turns.commit import TurnWriter
from prowess.turns.definitions import PromptSkill, SkillDefinition, check_definition
from prowess.turns.dispatch import Dispatcher
from prowess.turns.engine import TurnEngine
from prowess.turns.executor import Executor
from prowess.turns.facts import FactReader
from prowess.turns.ports import Voice
from prowess.turns.safety import SafetyPolicy
from prowess.turns.sessions.service import SessionService


@dataclass(frozen=True, slots=True)
class Parts:
    """The wired runtime."""

    database: Database
    log: EventLog
    clock: Clock
    ids: IdSource
    chat: ChatService
    grants: GrantService
    memory: MemoryService
    catalog: CatalogService[SkillDefinition]
    skills: SkillService[SkillDefinition]
    sessions: SessionService
    engine: TurnEngine


def wire(
    url: str,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    voice: Voice | None = None,
    skills: Iterable[SkillDefinition] = (),
    safety: SafetyPolicy | None = None,
    create_missing: bool = True,
) -> Parts:
    """Open and migrate the database and join everything over it. ``skills`` stand beside the built-in ones."""
    definitions = (*builtin_skills(), *skills)
    for definition in definitions:
        check_definition(definition)
    catalog: CatalogService[SkillDefinition] = CatalogService(definitions, installed_definition)
    database = Database(url)
    try:
        migrate(database)
        if clock is None:
            clock = SystemClock() if database.dialect == "sqlite" else postgres_clock(database)
    except BaseException:
        database.close()
        raise
    ids = ids or RandomIds(clock)
    log = EventLog(database, clock)
    chat = ChatService(log, create_missing=create_missing)
    memory = MemoryService(log, ids)
    engine = TurnEngine(
        log=log,
        reader=FactReader(log, chat, catalog),
        writer=TurnWriter(log, ids, chat),
        executor=Executor(ids),
        dispatcher=Dispatcher(log, ids, memory),
        safety=safety or SafetyPolicy(),
        voice=voice or OfflineVoice(),
    )
    return Parts(
        database=database,
        log=log,
        clock=clock,
        ids=ids,
        chat=chat,
        grants=GrantService(log, ids),
        memory=memory,
        catalog=catalog,
        skills=SkillService(log, catalog),
        sessions=SessionService(log, ids),
        engine=engine,
    )


def installed_definition(stored: StoredSkill) -> SkillDefinition:
    """Installed folders serve as prompt skills until a sandbox can run what they bring (ruling 12.8)."""
    return PromptSkill(manifest=served_manifest(stored.manifest), body=stored.body)
