"""The Prowess façade: what people and programs touch. Faces call this and nothing below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from prowess.access.guards import Guard
from prowess.access.model import Mode
from prowess.access.resolver import CapabilityResolver
from prowess.automation.jobs.leases import Observer
from prowess.automation.jobs.model import LEASE
from prowess.kernel.clock import Clock
from prowess.kernel.ids import IdSource
from prowess.runtime.facade.approvals import Approvals
from prowess.runtime.facade.chat import Chats
from prowess.runtime.facade.delegation import Delegations
from prowess.runtime.facade.memory import Memories
from prowess.runtime.facade.mounts import Mounts
from prowess.runtime.facade.notifications import Notifications
from prowess.runtime.facade.packages import Packages
from prowess.runtime.facade.permissions import Permissions
from prowess.runtime.facade.quotas import Quotas
from prowess.runtime.facade.records import Records
from prowess.runtime.facade.secrets import Secrets
from prowess.runtime.facade.skills import Skills
from prowess.runtime.facade.turns import Turns
from prowess.runtime.facade.working import Working
from prowess.runtime.settings import Options
from prowess.runtime.wiring import wire
from prowess.sandbox.ports import Sandbox
from prowess.secrets.keys import KeyRing
from prowess.turns.definitions import SkillDefinition, ToolGroup
from prowess.turns.limits import TurnLimits
from prowess.turns.ports import Voice
from prowess.turns.request import TurnResult
from prowess.turns.safety import SafetyPolicy


class Prowess(
    Turns,
    Delegations,
    Chats,
    Permissions,
    Approvals,
    Quotas,
    Memories,
    Skills,
    Packages,
    Secrets,
    Mounts,
    Working,
    Notifications,
    Records,
):
    """One open runtime over one database. Safe to share between threads; close it, or use it in a ``with`` block.

    Every method takes ``tenant`` (default ``"default"``) and raises the errors of ``prowess.errors``.
    """

    def __enter__(self) -> Prowess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop what runs in this process and let go of the database."""
        self._parts.scripts.close()
        self._parts.worker.close()
        self._parts.job_engine.close()
        self._parts.mounts.close()
        self._parts.stops.close()
        self._parts.database.close()


def open(
    url: str,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    voice: Voice | None = None,
    skills: Iterable[SkillDefinition] = (),
    groups: Iterable[ToolGroup] = (),
    safety: SafetyPolicy | None = None,
    create_missing: bool = True,
    resolver: CapabilityResolver | Literal["roles"] | None = None,
    server: bool = False,
    allow_all: bool = False,
    policies: Iterable[str | Path] = (),
    guards: Iterable[Guard] = (),
    mode: Mode | str = Mode.DEFAULT,
    limits: TurnLimits | None = None,
    prices: Mapping[str, tuple[int, int]] | None = None,
    system_skills: Iterable[str] = (),
    system_tools: Iterable[str] = (),
    secret_keys: KeyRing | str | Path | None = None,
    drafts: bool = False,
    seals: str | Path | None = None,
    engine: Literal["embedded", "pgqueuer"] = "embedded",
    lease: timedelta = LEASE,
    observe: Observer | None = None,
    outgoing_hosts: Iterable[str] = (),
    approval_lifetime: timedelta | None = None,
    watch_roots: Iterable[str | Path] = (),
    sandbox: Sandbox | str = "auto",
    script_roots: Iterable[str | Path] = (),
    script_environment: Mapping[str, str] | None = None,
) -> Prowess:
    """Open a database (``sqlite:///file.db``, ``sqlite://``, ``postgresql://…``), bring it to this schema, and serve.

    ``skills`` are definitions of your own beside the built-in ones, ``groups`` tool groups over their tools;
    ``voice`` speaks the replies (default: an offline, deterministic one that says so); ``safety`` replaces the rules of
    the safety response; ``clock`` and ``ids`` are for tests. ``create_missing``: unknown agents and conversations are
    made on first use.

    ``resolver`` says what each user may use at all: your own, or ``"roles"`` for the roles in the database. Without one
    everybody may use everything that an agent has; with ``server`` that is refused unless ``allow_all`` says so
    (rulings 12.9, 12.23). ``policies`` are files of rules, ``guards`` your own code asked before each tool call,
    ``mode`` how far to go without asking, ``limits`` what one turn may cost. ``prices``: by name of a voice, the price
    of a thousand input and output tokens in millionths of a currency, for quotas of cost. ``system_skills`` and
    ``system_tools`` are exempt from entitlement, each of them alone (G10). ``secret_keys``: the file of the keys that
    secrets are encrypted with (default: ``PROWESS_SECRET_KEY`` or the file ``PROWESS_SECRET_KEY_FILE``; without any,
    none can be stored). ``drafts``: skill versions that are rolled out to nobody yet, or to some, serve everybody here:
    for a place of work, not for production. ``seals``: the file outside the database to which seals of the log are
    appended (default: beside an SQLite file; PostgreSQL has none unless it is named here). ``approval_lifetime``: how
    long a call waits for a person's yes, 1 second to 7 days (default: 30 minutes). ``engine``: what wakes the worker,
    ``"embedded"`` or, on PostgreSQL for several machines, ``"pgqueuer"`` (B18). ``lease``: how long a worker may be
    silent before its jobs are taken over. ``observe`` is told where each job is, for tests. ``outgoing_hosts``: where
    webhooks may go, as ``host`` (port 443) or ``host:port``; none unless listed (B15). ``watch_roots``: the folders
    below which automations may watch files; none: no automation may. ``sandbox``: what runs the scripts of installed
    skills, ``"auto"`` (bubblewrap where it isolates, else nothing runs), ``"bubblewrap"``, ``"landlock"`` (reduced) or
    ``"refuse"``, or one of your own. ``script_roots``: the folders below which scripts may be permitted files; none: no
    files. ``script_environment``: variables that scripts may see, where they declare them and the user consents.

    Raises ``StorageError`` (``database_url``, ``database_unavailable``, ``database_newer``, ``postgres_missing``),
    ``InvalidInput`` and ``Conflict`` for definitions that registration refuses (X1, S7), for policy files that do not
    hold, for ``resolver_required``, ``watch_root_unusable``, ``bad_price``, ``sandbox_option``,
    ``script_root_unusable``, ``script_environment``, and ``StorageError`` for keys that cannot be used.
    """
    options = Options(
        clock=clock,
        ids=ids,
        voice=voice,
        skills=skills,
        groups=groups,
        safety=safety,
        create_missing=create_missing,
        resolver=resolver,
        server=server,
        allow_all=allow_all,
        policies=policies,
        guards=guards,
        mode=mode,
        limits=limits,
        prices=prices or {},
        system_skills=system_skills,
        system_tools=system_tools,
        secret_keys=secret_keys,
        drafts=drafts,
        seals=seals,
        engine=engine,
        lease=lease,
        observe=observe,
        outgoing_hosts=outgoing_hosts,
        approval_lifetime=approval_lifetime,
        watch_roots=watch_roots,
        sandbox=sandbox,
        script_roots=script_roots,
        script_environment=script_environment or {},
    )
    return Prowess(wire(url, options))


def result_to_json(result: TurnResult) -> dict[str, Any]:
    """A turn's result as the JSON of ``docs/contracts.md``."""
    return asdict(result)
