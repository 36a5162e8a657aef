"""Taking a skill in: quarantine → check → what is new → a yes where one is needed → active (ruling 12.8, U11)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Row
from sqlalchemy.exc import IntegrityError

from prowess.access.approvers.model import ANY_CODE
from prowess.access.approvers.store import codes_of
from prowess.errors import Conflict, Denied, LimitExceeded, NotFound, ProwessError, SkillFileError
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.ids import IdSource
from prowess.packages.deciding import Decision, Review, decide
from prowess.packages.entry import Entrance, Incoming
from prowess.packages.model import TRANSITIONS, Install, InstallState
from prowess.packages.proving import LevelCheck, Proof, prove
from prowess.packages.signing import read_signature
from prowess.packages.store import (
    change_install,
    delete_files,
    files_in_quarantine,
    find_install,
    insert_files,
    insert_install,
    list_installs,
    open_installs,
    report_text,
    to_install,
)
from prowess.packages.telling import checked_values, why_not
from prowess.packages.unpacking import Package, files_below, lay_out, opened_package, private_folder
from prowess.skills.service import Added
from prowess.skills.skill_md import read_skill_folder
from prowess.skills.store import skill_file_rows
from prowess.validation.report import Issue

MAX_OPEN = 200
"""installs of a tenant that hold files in quarantine"""
MAX_LOST_RACES = 20
"""of entering one skill while others enter versions of it"""
INSTALL_CODE = "skill:install"
"""the code of ``prowess approvals approvers add`` whose holders may let skills in"""
TWO_PERSONS_FROM = 3
"""permission level from which whoever installs may not be the one who approves"""
REVIEWS = ("auto", "always")


class _Raced(Exception):
    """The catalog moved on between the decision and the entering."""


class _Settled(NamedTuple):
    install: Install
    issues: tuple[Issue, ...]
    error: ProwessError | None
    added: Added | None


class InstallService:
    """The use cases of installing. No agent has a road here (G15)."""

    def __init__(self, log: EventLog, ids: IdSource, entrance: Entrance, levels: Sequence[LevelCheck]) -> None:
        """``levels``: those of validation, in the order in which they run."""
        self._log = log
        self._ids = ids
        self._entrance = entrance
        self._levels = tuple(levels)

    def add(self, *, actor: Actor, tenant: str, path: str | os.PathLike[str]) -> Added:
        """Install the operator's own folder: that they add it is their yes to a first version.

        Raises ``SkillFileError`` for what cannot be read and for the first fault that a check found, ``Conflict``:
        ``skill_digest_differs``, ``skill_kind_differs``, ``skill_name_taken``, ``skill_from_elsewhere``, and
        ``install_waits`` where a person has to approve what is new.
        """
        loaded = read_skill_folder(path)
        with self._log.database.read() as connection:
            present = self._entrance.look_ahead(connection, tenant, loaded)
        if present is not None and read_signature(loaded.path) is None:
            return present
        settled = self._take_in(actor, tenant, path, own=True, review="auto")
        if settled.added is not None:
            return settled.added
        raise why_not(settled.install, settled.issues, settled.error)

    def install(
        self,
        *,
        actor: Actor,
        tenant: str,
        path: str | os.PathLike[str],
        review: Review = "auto",
        expected: str | None = None,
    ) -> Install:
        """Take in the skill in a folder or an archive; where it ends up is the ``state`` of what is returned.

        ``review`` ``always``: a person has to approve, whatever it is. ``expected``: the digest that it must have.
        Raises ``SkillFileError`` for what cannot be unpacked or read (nothing is kept of it but an event),
        ``LimitExceeded('installs_waiting')``, ``Denied('agent_cannot_decide')``.
        """
        return self._take_in(actor, tenant, path, own=False, review=review, expected=expected).install

    def _take_in(
        self,
        actor: Actor,
        tenant: str,
        path: str | os.PathLike[str],
        *,
        own: bool,
        review: Review,
        expected: str | None = None,
    ) -> _Settled:
        _refuse_agents(actor)
        with ExitStack() as stack:
            try:
                package = stack.enter_context(opened_package(path))
            except SkillFileError as error:
                self._refuse(actor, tenant, Path(path).name, error)
                raise
            install_id = self._quarantine(actor, tenant, package, own=own)
            proof = prove(package.folder, tenant, self._levels)
            return self._settle(actor, tenant, install_id, self._coming(package, proof, own, expected), proof, review)

    def check(self, *, actor: Actor, tenant: str, install_id: str) -> Install:
        """Check once more what is in quarantine or waits: rules, keys and the catalog may have changed since.

        Raises ``NotFound('install_not_found')``, ``Conflict('install_decided')``.
        """
        _refuse_agents(actor)
        with self._laid_out(tenant, install_id) as (row, package):
            if InstallState.CHECKED not in TRANSITIONS[InstallState(row.state)]:
                raise Conflict("install_decided", install=install_id, state=row.state)
            proof = prove(package.folder, tenant, self._levels)
            incoming = self._coming(package, proof, row.own, None)
            return self._settle(
                actor, tenant, install_id, incoming, proof, "auto", before=InstallState(row.state)
            ).install

    def approve(self, *, actor: Actor, tenant: str, install_id: str, digest: str | None = None) -> Install:
        """A person's yes to exactly what was shown: this content, with these changes; it counts once.

        Raises ``NotFound('install_not_found')``, ``Denied``: ``agent_cannot_decide``, ``not_an_approver`` (a user
        who is not named for ``skill:install``), ``approver_is_installer`` (from permission level 3 on); ``Conflict``:
        ``install_decided``, ``install_digest`` (``digest`` is another), ``install_changed`` (what is new is no longer
        what was shown; it is now, and can be approved).
        """
        _refuse_agents(actor)
        with self._laid_out(tenant, install_id) as (row, package):
            _check_answerable(row, digest)
            skill = read_skill_folder(package.folder)
            incoming = self._entrance.incoming(skill, package, "pass", row.own)
            for _ in range(MAX_LOST_RACES):
                with suppress(IntegrityError, _Raced):
                    return self._approve(actor, tenant, to_install(row), incoming)
            return self._approve(actor, tenant, to_install(row), incoming)

    def _approve(self, actor: Actor, tenant: str, install: Install, incoming: Incoming) -> Install:
        waiting, changed = InstallState.AWAITING_APPROVAL, False
        with self._log.transaction(tenant) as transaction:
            _check_approver(transaction, actor, tenant, install)
            decision = decide(self._entrance.facts(transaction, tenant, incoming, "auto"))
            if incoming.skill.digest != install.digest:  # the database was changed behind our back
                raise Conflict("install_digest", install=install.id, digest=install.digest)
            if decision.state is InstallState.REJECTED:
                self._move(transaction, actor, install, waiting, decision.state, decision.reason)
            elif decision.changes != install.changes:
                values = {"changes": report_text(decision.changes.to_json()), "signer": decision.signer}
                changed = change_install(transaction.connection, tenant, install.id, waiting, values)
            else:
                added = self._enter(transaction, actor, tenant, incoming, decision)
                values = {"outcome": added.state, "version": added.ref.version}
                self._move(transaction, actor, install, waiting, InstallState.ACTIVE, "approved", values)
        if changed:
            raise Conflict("install_changed", install=install.id)
        return self.get(tenant, install.id)

    def reject(self, *, actor: Actor, tenant: str, install_id: str) -> Install:
        """Turn down what is in quarantine or waits. Raises as ``approve``."""
        _refuse_agents(actor)
        with self._log.transaction(tenant) as transaction:
            install = to_install(_require(find_install(transaction.connection, tenant, install_id), install_id))
            if InstallState.REJECTED not in TRANSITIONS[install.state]:
                raise Conflict("install_decided", install=install_id, state=str(install.state))
            _check_approver(transaction, actor, tenant, install, may_be_installer=True)
            self._move(transaction, actor, install, install.state, InstallState.REJECTED, "turned_down")
        return self.get(tenant, install_id)

    def get(self, tenant: str, install_id: str) -> Install:
        """One install. Raises ``NotFound('install_not_found')``."""
        with self._log.database.read() as connection:
            return to_install(_require(find_install(connection, tenant, install_id), install_id))

    def list(self, tenant: str, states: Iterable[str] | None = None, limit: int = 100) -> list[Install]:
        """The newest first; ``states`` null: whatever became of them."""
        with self._log.database.read() as connection:
            return list_installs(connection, tenant, states, limit)

    # steps

    def _coming(self, package: Package, proof: Proof, own: bool, expected: str | None) -> Incoming | None:
        if proof.skill is None:
            return None
        return self._entrance.incoming(proof.skill, package, proof.report.verdict, own, expected)

    def _quarantine(self, actor: Actor, tenant: str, package: Package, *, own: bool) -> str:
        install_id = self._ids.new("install")
        with self._log.transaction(tenant) as transaction:
            if open_installs(transaction.connection, tenant) >= MAX_OPEN:
                raise LimitExceeded("installs_waiting", limit=MAX_OPEN)
            row: dict[str, Any] = {
                "id": install_id,
                "tenant": tenant,
                "source": package.source,
                "source_kind": package.kind,
                "folder": package.folder.name,
                "own": own,
                "state": str(InstallState.QUARANTINED),
                "signature": package.signature,
                "report": "{}",
                "installed_by": actor.id,
                "created_at": transaction.now_ms,
                "changed_at": transaction.now_ms,
            }
            insert_install(transaction.connection, row)
            insert_files(transaction.connection, install_id, files_below(package.folder))
            said: dict[str, Any] = {"source": package.source, "source_kind": package.kind}
            transaction.emit("install.quarantined", tenant=tenant, actor=actor, target=install_id, **said)
        return install_id

    def _settle(
        self,
        actor: Actor,
        tenant: str,
        install_id: str,
        incoming: Incoming | None,
        proof: Proof,
        review: Review,
        before: InstallState = InstallState.QUARANTINED,
    ) -> _Settled:
        for _ in range(MAX_LOST_RACES):
            with suppress(IntegrityError, _Raced):  # somebody else entered a version just now; it is there next time
                return self._settle_once(actor, tenant, install_id, incoming, proof, review, before)
        return self._settle_once(actor, tenant, install_id, incoming, proof, review, before)

    def _settle_once(
        self,
        actor: Actor,
        tenant: str,
        install_id: str,
        incoming: Incoming | None,
        proof: Proof,
        review: Review,
        before: InstallState,
    ) -> _Settled:
        added: Added | None = None
        with self._log.transaction(tenant) as transaction:
            install = to_install(_require(find_install(transaction.connection, tenant, install_id), install_id))
            decision: Decision | None = None
            ref: tuple[str | None, str | None] = (proof.report.id, None)
            if incoming is not None:
                facts = self._entrance.facts(transaction, tenant, incoming, review)
                decision, ref = decide(facts), (facts.manifest.id, facts.manifest.version)
            values = checked_values(proof, incoming, decision) | {"skill_id": ref[0], "version": ref[1]}
            self._move(transaction, actor, install, before, InstallState.CHECKED, proof.report.verdict, values)
            state = InstallState.REJECTED if decision is None else decision.state
            reason = "check_failed" if decision is None else decision.reason
            outcome: dict[str, Any] = {}
            if incoming is not None and decision is not None and state is InstallState.ACTIVE:
                added = self._enter(transaction, actor, tenant, incoming, decision)
                outcome = {"outcome": added.state, "version": added.ref.version}
            self._move(transaction, actor, install, InstallState.CHECKED, state, reason, outcome)
            install = to_install(_require(find_install(transaction.connection, tenant, install_id), install_id))
        findings = () if decision is None else decision.findings
        return _Settled(install, proof.report.issues + findings, None if decision is None else decision.error, added)

    def _enter(
        self, transaction: Transaction, actor: Actor, tenant: str, incoming: Incoming, decision: Decision
    ) -> Added:
        try:
            return self._entrance.enter(transaction, actor, tenant, incoming, decision)
        except Conflict as conflict:  # none a moment ago, when it was decided
            raise _Raced from conflict

    def _move(
        self,
        transaction: Transaction,
        actor: Actor,
        install: Install,
        before: InstallState,
        after: InstallState,
        reason: str,
        values: dict[str, Any] | None = None,
    ) -> None:
        """One step of the table of states, with its event. Raises ``Conflict('install_decided')``."""
        assert after in TRANSITIONS[before], (before, after)
        changed = {"state": str(after), "reason": reason, "changed_at": transaction.now_ms, **(values or {})}
        if before is InstallState.AWAITING_APPROVAL:
            changed["decided_by"] = actor.id
        if not change_install(transaction.connection, install.tenant, install.id, before, changed):
            raise Conflict("install_decided", install=install.id, state=str(before))
        if after in (InstallState.ACTIVE, InstallState.REJECTED):
            delete_files(transaction.connection, install.id)
        row = _require(find_install(transaction.connection, install.tenant, install.id), install.id)
        word = {InstallState.ACTIVE: "allowed", InstallState.REJECTED: "denied"}.get(after)
        transaction.emit(
            f"install.{after}",
            tenant=install.tenant,
            actor=actor,
            target=install.id,
            skill=None if row.version is None else (row.skill_id, row.version),
            decision=word,
            reason=reason,
            digest=row.digest,
            trust=row.trust,
            signer=row.signer,
            level=row.permission_level,
        )

    def _refuse(self, actor: Actor, tenant: str, name: str, error: SkillFileError) -> None:
        with self._log.transaction(tenant) as transaction:
            said: dict[str, Any] = {"code": error.code, "name": name[:200]}
            transaction.emit("install.refused", tenant=tenant, actor=actor, decision="denied", **said)

    @contextmanager
    def _laid_out(self, tenant: str, install_id: str) -> Iterator[tuple[Row[Any], Package]]:
        """The files of an install in a folder of ours: out of quarantine, or of the version that was taken out."""
        with private_folder() as private:
            with self._log.database.read() as connection:
                row = _require(find_install(connection, tenant, install_id), install_id)
                folder = private / row.folder
                files = list(files_in_quarantine(connection, install_id))
                if not files and row.version is not None and row.state == str(InstallState.QUARANTINED):
                    stored = skill_file_rows(connection, tenant, row.skill_id, row.version)
                    files = [(file.path, file.content, file.executable) for file in stored]
            lay_out(files, folder)
            yield row, Package(folder, row.source, row.source_kind, row.signature)


def _require(row: Row[Any] | None, install_id: str) -> Row[Any]:
    if row is None:
        raise NotFound("install_not_found", install=install_id[:80])
    return row


def _check_answerable(row: Row[Any], digest: str | None) -> None:
    if row.state != str(InstallState.AWAITING_APPROVAL):
        raise Conflict("install_decided", install=row.id, state=row.state)
    if digest is not None and digest != row.digest:
        raise Conflict("install_digest", install=row.id, digest=row.digest)


def _check_approver(
    transaction: Transaction, actor: Actor, tenant: str, install: Install, *, may_be_installer: bool = False
) -> None:
    if actor.kind == "user" and not codes_of(transaction.connection, tenant, actor.id) & {INSTALL_CODE, ANY_CODE}:
        raise Denied("not_an_approver", install=install.id)
    if not may_be_installer and (install.level or 0) >= TWO_PERSONS_FROM and actor.id == install.installed_by:
        raise Denied("approver_is_installer", install=install.id, level=install.level)


def _refuse_agents(actor: Actor) -> None:
    if actor.kind == "agent":
        raise Denied("agent_cannot_decide", field="actor")
