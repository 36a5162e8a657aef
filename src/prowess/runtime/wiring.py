"""The one composition root: every object of the runtime is made and joined here."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from prowess.access.approvals.model import APPROVAL_LIFETIME, check_lifetime
from prowess.access.approvals.service import ApprovalService
from prowess.access.approvers.service import ApproverService
from prowess.access.model import Mode
from prowess.access.policies import PolicySet, load_policies
from prowess.access.quotas.service import QuotaService
from prowess.access.resolver import SurfaceSource
from prowess.access.roles.service import RoleResolver, RoleService
from prowess.access.service import GrantService
from prowess.access.standing.service import StandingService
from prowess.adapters.engines.embedded import EmbeddedEngine
from prowess.adapters.notifiers.closed import ClosedNotifier
from prowess.adapters.voices.offline import OfflineVoice
from prowess.automation.delegation.service import DelegationService
from prowess.automation.delegation.stopping import StopService
from prowess.automation.delegation.store import root_of
from prowess.automation.jobs.ledger import JobLedger
from prowess.automation.jobs.model import Task
from prowess.automation.jobs.runner import Runner
from prowess.automation.jobs.worker import Worker
from prowess.automation.notifications.addresses import Allowlist
from prowess.automation.notifications.hooks import HookService
from prowess.automation.notifications.ports import Notifier
from prowess.automation.notifications.service import NotificationService
from prowess.automation.ports import JobEngine
from prowess.automation.scheduling import JobScheduler
from prowess.automation.tasks.approvals import ApprovalFollower, ApprovalKeeper, CallRunner, ContinueRunner
from prowess.automation.tasks.deliveries import DeliveryRunner
from prowess.automation.tasks.skills import SkillRunner
from prowess.automation.tasks.turns import TurnRunner
from prowess.automation.watching.paths import Roots
from prowess.builtin import builtin_skills
from prowess.chat.service import ChatService
from prowess.db.clock import postgres_clock
from prowess.db.engine import Database
from prowess.db.schema import migrate
from prowess.errors import Conflict, InvalidInput, StorageError
from prowess.events.log import EventLog
from prowess.events.seals import SealService
from prowess.kernel.clock import Clock, SystemClock
from prowess.kernel.ids import IdSource, RandomIds
from prowess.kernel.names import normalise_skill_name
from prowess.memory.service import MemoryService
from prowess.mounts.connections import Connections
from prowess.mounts.service import MountService
from prowess.runtime.automating import AutomationParts, join_automations
from prowess.runtime.declared import Declared
from prowess.runtime.packaging import PackageParts, join_packages
from prowess.runtime.scripts import InstalledSkills, ScriptParts, join_scripts
from prowess.runtime.settings import ENGINES, Options
from prowess.runtime.viewing import Views
from prowess.secrets.keys import KEY_FILE_VARIABLE, KeyRing, read_keys
from prowess.secrets.service import SecretService
from prowess.skills.catalog import CatalogService
from prowess.skills.service import SkillService
from prowess.skills.staging.service import StagingService
from prowess.turns.background import BackgroundGate
from prowess.turns.budgets import Budgets
from prowess.turns.commit import TurnWriter
from prowess.turns.definitions import SkillDefinition, check_definition, check_group
from prowess.turns.dispatch import Dispatcher
from prowess.turns.executor import Executor
from prowess.turns.facts import FactReader
from prowess.turns.halting import TurnHalter
from prowess.turns.handling import Handling
from prowess.turns.limits import TurnLimits
from prowess.turns.meta import MetaTools
from prowess.turns.resuming import ResumingEngine
from prowess.turns.safety import SafetyPolicy
from prowess.turns.sessions.service import SessionService
from prowess.turns.stopping import Stops
from prowess.turns.view import Marks
from prowess.validation.service import ValidationService

logger = logging.getLogger(__name__)


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
    validation: ValidationService
    sessions: SessionService
    engine: ResumingEngine
    reader: FactReader
    surfaces: SurfaceSource
    policies: PolicySet
    mode: Mode
    roles: RoleService
    standing: StandingService
    approvals: ApprovalService
    approvers: ApproverService
    quotas: QuotaService
    budgets: Budgets
    secrets: SecretService
    staging: StagingService
    seals: SealService
    views: Views
    automations: AutomationParts
    ledger: JobLedger
    scheduler: JobScheduler
    worker: Worker
    job_engine: JobEngine
    approval_keeper: ApprovalKeeper
    notifications: NotificationService
    hooks: HookService
    mounts: MountService
    delegation: DelegationService
    stopping: StopService
    stops: Stops
    scripts: ScriptParts
    packages: PackageParts


def wire(url: str, options: Options) -> Parts:
    """Open and migrate the database and join everything over it. Raises as ``prowess.open``."""
    definitions = (*builtin_skills(), *options.skills)
    for definition in definitions:
        check_definition(definition)
    installed = InstalledSkills()
    catalog: CatalogService[SkillDefinition] = CatalogService(definitions, installed.definition)
    marks, policies = _marks(options), load_policies(options.policies)
    database = Database(url)
    try:
        migrate(database)
        return _join(database, catalog, installed, marks, policies, options)
    except BaseException:
        database.close()
        raise


def _join(
    database: Database,
    catalog: CatalogService[SkillDefinition],
    installed: InstalledSkills,
    marks: Marks,
    policies: PolicySet,
    options: Options,
) -> Parts:
    mode = _mode(options.mode)
    limits = options.limits or TurnLimits()
    limits.check()
    clock = options.clock
    if clock is None:
        clock = SystemClock() if database.dialect == "sqlite" else postgres_clock(database)
    ids = options.ids or RandomIds(clock)
    log = EventLog(database, clock)
    chat = ChatService(log, create_missing=options.create_missing)
    memory = MemoryService(log, ids)
    resolver = RoleResolver(log) if options.resolver == "roles" else options.resolver
    surfaces = SurfaceSource(resolver, server=options.server, allow_all=options.allow_all)
    reader = FactReader(log, chat, catalog, policies, marks, drafts=options.drafts)
    secrets = SecretService(log, _keys(options))
    log.redactors = secrets.redactor
    approvals = ApprovalService(log, ids, check_lifetime(options.approval_lifetime or APPROVAL_LIFETIME))
    guards = tuple(options.guards)
    quotas = QuotaService(log, ids)
    budgets, stops = Budgets(log, quotas, options.prices), Stops(database)
    dispatcher = Dispatcher(log, ids, Handling(log, memory, secrets), approvals, budgets, guards)
    dispatcher.tasks = root_of
    scripts = join_scripts(
        options.sandbox,
        options.script_roots,
        options.script_environment,
        installed,
        database=database,
        log=log,
        dispatcher=dispatcher,
        memory=memory,
        secrets=secrets,
    )
    writer = TurnWriter(log, ids, chat)
    engine = ResumingEngine(
        log=log,
        reader=reader,
        writer=writer,
        executor=Executor(ids),
        dispatcher=dispatcher,
        meta=MetaTools(log, ids),
        safety=options.safety or SafetyPolicy(),
        voice=options.voice or OfflineVoice(),
        surfaces=surfaces,
        policies=policies,
        mode=mode,
        limits=limits,
        stops=stops,
    )
    ledger, background = JobLedger(log, ids), BackgroundGate(log, reader, engine.rights, guards)
    notifications = NotificationService(log, ids, ledger)
    hooks = HookService(log, ids, secrets, _notifier(options))
    allowlist = Allowlist.of(options.outgoing_hosts)
    mounts = MountService(log, secrets, Connections(allowlist), allowlist)
    catalog.mounted = mounts.entries
    runners: dict[Task, Runner] = {
        Task.SKILL: SkillRunner(log, background, memory, secrets, budgets),
        Task.CALL: CallRunner(engine),
        Task.CONTINUE: ContinueRunner(engine, approvals),
        Task.DELIVERY: DeliveryRunner(log, hooks),
    }
    approval_keeper = ApprovalKeeper(log, approvals)
    views = Views(log, reader, policies, mode)
    skill_service, validation = SkillService(log, catalog), ValidationService(database, clock, ids)
    declared, roots = Declared(views, surfaces), Roots(options.watch_roots)
    automations = join_automations(log, ids, chat, secrets, ledger, declared, roots)
    dispatcher.handling.proposals = automations.proposals
    delegation = DelegationService(log, ids, chat, engine)
    runners[Task.TURN] = TurnRunner(engine, automations.triggers.admit)
    duties = [
        automations.scheduler.look_after,
        automations.reactions.look_after,
        approval_keeper.look_after,
        ApprovalFollower(log, ledger).look_after,
        notifications.look_after,
        delegation.look_after,
    ]
    job_engine = _job_engine(options, database, clock)
    ledger.wake = job_engine.wake
    return Parts(
        database=database,
        log=log,
        clock=clock,
        ids=ids,
        chat=chat,
        grants=GrantService(log, ids),
        memory=memory,
        catalog=catalog,
        skills=skill_service,
        validation=validation,
        sessions=SessionService(log, ids),
        engine=engine,
        reader=reader,
        surfaces=surfaces,
        policies=policies,
        mode=mode,
        roles=RoleService(log),
        standing=StandingService(log, ids),
        approvals=approvals,
        approvers=ApproverService(log),
        quotas=quotas,
        budgets=budgets,
        secrets=secrets,
        staging=StagingService(log, ids),
        seals=SealService(log, _anchor(database, options)),
        views=views,
        automations=automations,
        ledger=ledger,
        scheduler=JobScheduler(log, ids, chat, background, ledger),
        worker=Worker(log, runners, duties, lease=options.lease, observe=options.observe),
        job_engine=job_engine,
        approval_keeper=approval_keeper,
        notifications=notifications,
        hooks=hooks,
        mounts=mounts,
        delegation=delegation,
        stopping=StopService(log, TurnHalter(ids, writer, approvals), stops),
        stops=stops,
        scripts=scripts,
        packages=join_packages(log, ids, catalog, skill_service, validation, scripts.sandbox),
    )


def _job_engine(options: Options, database: Database, clock: Clock) -> JobEngine:
    """What wakes the worker. Raises ``InvalidInput``: ``bad_choice``, ``engine_needs_postgres``, ``engine_missing``."""
    if options.engine == "embedded":
        return EmbeddedEngine(clock)
    if options.engine != "pgqueuer":
        raise InvalidInput("bad_choice", field="engine", known=list(ENGINES))
    from prowess.adapters.engines.pgqueuer import PGQueuerEngine

    return PGQueuerEngine(database.url.render_as_string(hide_password=False), clock=clock)


def _notifier(options: Options) -> Notifier:
    """What carries notifications outside: nothing, where no host is allowed."""
    allowlist = Allowlist.of(options.outgoing_hosts)
    if not allowlist.endpoints:
        return ClosedNotifier()
    from prowess.adapters.notifiers.webhook import WebhookNotifier

    return WebhookNotifier(allowlist)


def _anchor(database: Database, options: Options) -> Path | None:
    """Where seals are kept outside the database."""
    if options.seals is not None:
        return Path(options.seals)
    file = database.url.database if database.dialect == "sqlite" else None
    return None if file in (None, "", ":memory:") else Path(f"{file}.seals")


def _keys(options: Options) -> KeyRing | None:
    """The keys of the secrets; none where neither an option nor the environment names any."""
    given = options.secret_keys
    if isinstance(given, KeyRing):
        return given
    try:
        return read_keys(None if given is None else Path(given))
    except StorageError as error:
        if given is None and error.code == "secret_key_missing" and not os.environ.get(KEY_FILE_VARIABLE):
            return None
        raise


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        raise InvalidInput("bad_mode", field="mode", known=[str(known) for known in Mode]) from None


def _marks(options: Options) -> Marks:
    """What is marked as system and which groups are declared. Each mark is logged: it is an exemption (G10)."""
    groups = tuple(options.groups)
    for group in groups:
        check_group(group)
        if group.system:
            logger.warning("tool group %s is marked as system", group.name)
    names = [group.name for group in groups]
    if len(set(names)) < len(names):
        raise Conflict("tool_group_twice")
    skills = frozenset(map(normalise_skill_name, options.system_skills))
    tools = frozenset(options.system_tools)
    for kind, marked in (("skill", skills), ("tool", tools)):
        for name in sorted(marked):
            logger.warning("%s %s is marked as system", kind, name)
    return Marks(skills, tools, groups)
