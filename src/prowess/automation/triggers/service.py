"""What people may do with triggers, and what an agent may: propose one (B15, G15). One transaction each."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from prowess.access.model import Risk
from prowess.automation.triggers.firing import Firing, Occasion, emit_trigger
from prowess.automation.triggers.model import TIMED, Fire, FireStatus, Rehearsal, Status, Trigger
from prowess.automation.triggers.schedule import Schedule, compile_schedule, first_slot, next_slot
from prowess.automation.triggers.specs import Draft, FileSpec, WebhookSpec, read_draft, read_spec
from prowess.automation.triggers.store import (
    count_kept,
    find_trigger,
    insert_trigger,
    list_fires,
    list_triggers,
    replace_trigger,
)
from prowess.automation.zones import data_version
from prowess.chat.service import ChatService
from prowess.errors import Conflict, Denied, InvalidInput, LimitExceeded, NotFound, ProwessError
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.clock import iso
from prowess.kernel.ids import IdSource, check_id
from prowess.secrets.model import SecretOwner
from prowess.secrets.service import SecretService
from prowess.turns.request import TRIGGER_PREFIX

MAX_TRIGGERS = 200
"""Of one user, removed ones apart."""
MAX_HISTORY = 1_000
PREVIEW = 5
_READING = frozenset({Risk.L0, Risk.L1})

DeclaredCodes = Callable[[str, str, str, str | None], Mapping[str, Risk]]
"""(tenant, user, agent, skill or null) → the codes that the skill, or any skill of theirs, declares, with the highest
risk of each. Raises ``NotFound``, all alike, for a skill that does not exist for this user, ``Denied`` where what they
may use could not be learned."""
CheckPath = Callable[[str], object]
"""Raises ``InvalidInput`` for a path that may not be watched."""


class TriggerService:
    """The use cases of triggers."""

    def __init__(
        self,
        log: EventLog,
        ids: IdSource,
        chat: ChatService,
        secrets: SecretService,
        firing: Firing,
        declared: DeclaredCodes,
        check_path: CheckPath,
        zone_data: Callable[[], str] = data_version,
    ) -> None:
        self._log = log
        self._ids = ids
        self._chat = chat
        self._secrets = secrets
        self._firing = firing
        self._declared = declared
        self._check_path = check_path
        self._zone_data = zone_data

    def add(self, *, actor: Actor, tenant: str, user: str, draft: Draft) -> Trigger:
        """A new active trigger of ``user``, made by a person.

        Raises ``Denied('agent_may_not_schedule')``, ``NotFound`` (``agent_not_found``, ``skill_not_found``,
        ``chat_not_found``, ``secret_missing``: C31), ``InvalidInput`` (``preapproval_not_readable``, ``time_in_past``,
        ``cron_never``, ``watch_root_missing`` and the rest of ``read_draft``), ``LimitExceeded('too_many_triggers')``.
        """
        self._need_person(actor)
        return self._store(actor, tenant, user, draft, Status.ACTIVE, "automation.created")

    def propose(self, *, tenant: str, user: str, agent: str, origin: str, draft: Draft) -> Trigger:
        """A trigger that an agent would like; it does nothing until its owner confirms it (B15).

        Raises as ``add``, and ``Denied('proposal_in_trigger_turn')`` in a turn that a trigger started (G15).
        """
        if origin.startswith(TRIGGER_PREFIX):
            raise Denied("proposal_in_trigger_turn", layer="automation", missing=[])
        return self._store(Actor("agent", agent), tenant, user, draft, Status.PROPOSED, "automation.proposed")

    def confirm(self, *, actor: Actor, tenant: str, trigger_id: str) -> Trigger:
        """Let a proposal become active; its owner alone may. Its times count from now.

        Raises ``NotFound('trigger_not_found')``, ``Conflict('trigger_not_proposed')``, and as ``add``.
        """
        trigger = self._proposal(actor, tenant, trigger_id)
        self._check(tenant, trigger.user, _draft_of(trigger))
        return self._move(
            trigger, actor, "automation.confirmed", lambda now: self._started(replace(trigger, anchor=now), now)
        )

    def reject(self, *, actor: Actor, tenant: str, trigger_id: str) -> None:
        """Turn a proposal down; its owner alone may. Raises ``NotFound``, ``Conflict('trigger_not_proposed')``."""
        trigger = self._proposal(actor, tenant, trigger_id)
        self._move(
            trigger,
            actor,
            "automation.rejected",
            lambda _: replace(trigger, status=Status.REMOVED, reason="rejected", next_fire_at=None),
        )

    def change(self, *, actor: Actor, tenant: str, trigger_id: str, changes: Mapping[str, Any]) -> Trigger:
        """Change fields of a trigger, by its owner or an operator; a broken or finished one becomes active.

        Raises as ``add``, ``NotFound('trigger_not_found')``, ``InvalidInput('trigger_kind_fixed')``,
        ``Conflict('trigger_changed')`` where somebody else changed it meanwhile.
        """
        trigger = self._owned(actor, tenant, trigger_id)
        draft = read_draft({**_asked(trigger), **changes})
        if draft.kind is not trigger.kind:
            raise InvalidInput("trigger_kind_fixed", field="kind", kind=str(trigger.kind))
        self._check(tenant, trigger.user, draft)
        moved = draft.spec != trigger.spec

        def changed(now: datetime) -> Trigger:
            after = replace(trigger, **_fields(draft), anchor=now if moved else trigger.anchor)
            if trigger.status in (Status.PAUSED, Status.PROPOSED):
                self._first(after, now)  # what can never fire is refused now, not when it is resumed
                return after
            return self._started(after, now) if moved or trigger.status is not Status.ACTIVE else after

        return self._move(trigger, actor, "automation.changed", changed, fields=sorted(changes))

    def pause(self, *, actor: Actor, tenant: str, trigger_id: str) -> Trigger:
        """Let it rest; jobs that wait are not run either. Raises ``NotFound``, ``Conflict('trigger_not_active')``."""
        trigger = self._owned(actor, tenant, trigger_id)
        if trigger.status is not Status.ACTIVE:
            raise Conflict("trigger_not_active", status=str(trigger.status))
        return self._move(
            trigger,
            actor,
            "automation.paused",
            lambda _: replace(trigger, status=Status.PAUSED, next_fire_at=None),
        )

    def resume(self, *, actor: Actor, tenant: str, trigger_id: str) -> Trigger:
        """Let it go on from now: what passed while it was paused does not fire.

        Raises ``NotFound``, ``Conflict('trigger_not_paused')``, and as ``add``.
        """
        trigger = self._owned(actor, tenant, trigger_id)
        if trigger.status is not Status.PAUSED:
            raise Conflict("trigger_not_paused", status=str(trigger.status))
        self._check(tenant, trigger.user, _draft_of(trigger))
        return self._move(trigger, actor, "automation.resumed", lambda now: self._started(trigger, now))

    def remove(self, *, actor: Actor, tenant: str, trigger_id: str) -> None:
        """Remove it; its history stays. Raises ``NotFound('trigger_not_found')``."""
        trigger = self._owned(actor, tenant, trigger_id)
        gone = replace(trigger, status=Status.REMOVED, reason=None, next_fire_at=None)
        self._move(trigger, actor, "automation.removed", lambda _: gone)

    def fire(self, *, actor: Actor, tenant: str, trigger_id: str) -> Fire:
        """Fire it now, beside its schedule.

        Raises ``NotFound``, ``Conflict('trigger_not_active')``, ``LimitExceeded('trigger_rate_limited')``,
        ``NotFound('agent_not_found')`` where its owner may no longer use the agent.
        """
        trigger = self._owned(actor, tenant, trigger_id)
        if trigger.status is not Status.ACTIVE:
            raise Conflict("trigger_not_active", status=str(trigger.status))
        self._check(tenant, trigger.user, _draft_of(trigger))
        with self._log.transaction(tenant) as transaction:
            occasion = Occasion(slot=self._ids.new("manual"), source="manual")
            fire = self._firing.fire(transaction, trigger, occasion, actor)
        self._firing.announce([fire])
        if fire is not None and fire.status is FireStatus.REFUSED:
            raise NotFound("agent_not_found", agent=trigger.agent)
        if fire is None or fire.job_id is None:
            raise LimitExceeded("trigger_rate_limited", trigger=trigger_id, **trigger.rate._asdict())
        return fire

    def rehearse(self, *, actor: Actor, tenant: str, trigger_id: str) -> Rehearsal:
        """What a fire would send now, and why it would not run, if so. Nothing is stored. Raises ``NotFound``."""
        trigger = self._owned(actor, tenant, trigger_id)
        with self._log.database.read() as connection:
            blocked = self.admit(connection, trigger.id)
        if blocked is None and trigger.status is not Status.BROKEN:
            try:
                self._check(tenant, trigger.user, _draft_of(trigger))
            except ProwessError as error:
                blocked = error.code
        return Rehearsal(
            text=trigger.text,
            agent=trigger.agent,
            conversation=self._firing.conversation(trigger, "rehearsal").id,
            mode=None if trigger.mode is None else str(trigger.mode),
            preapproved=trigger.preapproved,
            blocked=blocked,
            next_fires=self._preview(trigger),
        )

    def get(self, *, actor: Actor, tenant: str, trigger_id: str) -> Trigger:
        """One trigger of the asker's. Raises ``NotFound('trigger_not_found')``."""
        return self._owned(actor, tenant, trigger_id, removed=True)

    def list(self, tenant: str, user: str | None = None, *, with_removed: bool = False) -> builtins.list[Trigger]:
        """The triggers of a user, or of the whole tenant, oldest first."""
        with self._log.database.read() as connection:
            return list_triggers(connection, tenant, user, with_removed=with_removed)

    def history(self, *, actor: Actor, tenant: str, trigger_id: str, limit: int = 100) -> builtins.list[Fire]:
        """The fires of a trigger, newest first, missed ones too (U7). Raises ``NotFound``, ``InvalidInput``."""
        if not 1 <= limit <= MAX_HISTORY:
            raise InvalidInput("bad_count", field="limit", limit=MAX_HISTORY)
        self._owned(actor, tenant, trigger_id, removed=True)
        with self._log.database.read() as connection:
            return list_fires(connection, trigger_id, limit)

    def admit(self, connection: Connection, trigger_id: str) -> str | None:
        """Why a job of this trigger may not run at this moment; null where it may (G4, C31).

        ``removed``, ``paused``, ``proposed``, ``broken``, ``agent_not_usable``. A finished trigger has made its last
        job, which may run.
        """
        trigger = find_trigger(connection, trigger_id)
        if trigger is None:
            return str(Status.REMOVED)
        if trigger.status not in (Status.ACTIVE, Status.FINISHED):
            return str(trigger.status)
        usable = self._chat.may_use(connection, trigger.tenant, trigger.user, trigger.agent)
        return None if usable else "agent_not_usable"

    # --- inside ------------------------------------------------------------------------------------------------------

    def _store(self, actor: Actor, tenant: str, user: str, draft: Draft, status: Status, event: str) -> Trigger:
        check_id(tenant, "tenant")
        check_id(user, "user")
        self._check(tenant, user, draft)
        with self._log.transaction(tenant) as transaction:
            if count_kept(transaction.connection, tenant, user) >= MAX_TRIGGERS:
                raise LimitExceeded("too_many_triggers", limit=MAX_TRIGGERS)
            trigger = self._new(transaction, actor, tenant, user, draft, status)
            first = self._first(trigger, transaction.now)
            if status is Status.ACTIVE:
                trigger = replace(trigger, next_fire_at=first)
            insert_trigger(transaction.connection, trigger)
            emit_trigger(transaction, event, trigger, actor, of=str(draft.kind), next=iso(first))
            return trigger

    def _new(
        self, transaction: Transaction, actor: Actor, tenant: str, user: str, draft: Draft, status: Status
    ) -> Trigger:
        return Trigger(
            id=self._ids.new("trigger"),
            tenant=tenant,
            user=user,
            kind=draft.kind,
            **_fields(draft),
            status=status,
            reason=None,
            next_fire_at=None,
            anchor=transaction.now,
            active_since=transaction.now,
            revision=1,
            created_by=actor,
            created_at=transaction.now,
            changed_at=transaction.now,
            zone_data=self._zone_data(),
        )

    def _check(self, tenant: str, user: str, draft: Draft) -> None:
        """Whether this owner may have this at all, by what holds now (C31, B14)."""
        with self._log.database.read() as connection:
            if not self._chat.may_use(connection, tenant, user, draft.agent):
                raise NotFound("agent_not_found", agent=draft.agent)
            if draft.conversation is not None:
                self._chat.check_own(connection, tenant, draft.conversation, user, draft.agent)
        declared = self._declared(tenant, user, draft.agent, draft.skill)
        for code in draft.preapproved:
            if declared.get(code) not in _READING:
                raise InvalidInput("preapproval_not_readable", field="preapproved", permission=code)
        spec = read_spec(draft.kind, draft.spec)
        if isinstance(spec, FileSpec):
            self._check_path(spec.path)
        if isinstance(spec, WebhookSpec):
            filled = {info.name for info in self._secrets.list(tenant, SecretOwner("user", user))}
            for name in spec.secrets:
                if name not in filled:
                    raise NotFound("secret_missing", name=name, owner="user")

    def _started(self, trigger: Trigger, now: datetime) -> Trigger:
        return replace(
            trigger,
            status=Status.ACTIVE,
            reason=None,
            next_fire_at=self._first(trigger, now),
            active_since=now,
            zone_data=self._zone_data(),
        )

    def first_fire(self, trigger: Trigger) -> datetime | None:
        """When it would fire first, were it active from now on; null for a kind without times."""
        return self._first(trigger, self._log.clock.now())

    def _first(self, trigger: Trigger, now: datetime) -> datetime | None:
        schedule = _schedule(trigger)
        return None if schedule is None else first_slot(schedule, now)

    def _preview(self, trigger: Trigger) -> tuple[Mapping[str, Any], ...]:
        try:
            schedule = _schedule(trigger)
        except ProwessError:
            return ()
        found: builtins.list[Mapping[str, Any]] = []
        if schedule is not None and next_slot(schedule, self._log.clock.now()) is not None:
            for slot in schedule.slots(self._log.clock.now()):
                found.append({"utc": iso(slot.at), "note": slot.note})
                if len(found) == PREVIEW:
                    break
        return tuple(found)

    def _move(
        self, trigger: Trigger, actor: Actor, event: str, change: Callable[[datetime], Trigger], **data: Any
    ) -> Trigger:
        """Store what a trigger becomes, as its next revision."""
        with self._log.transaction(trigger.tenant) as transaction:
            after = replace(change(transaction.now), revision=trigger.revision + 1, changed_at=transaction.now)
            if not replace_trigger(transaction.connection, after, expected=trigger):
                raise Conflict("trigger_changed", trigger=trigger.id)
            emit_trigger(
                transaction, event, after, actor, revision=after.revision, next=iso(after.next_fire_at), **data
            )
            return after

    def _owned(self, actor: Actor, tenant: str, trigger_id: str, *, removed: bool = False) -> Trigger:
        """A trigger that this actor may see and steer: their own, or any for an operator."""
        self._need_person(actor)
        with self._log.database.read() as connection:
            trigger = find_trigger(connection, trigger_id, tenant)
        theirs = trigger is not None and (actor.kind == "operator" or trigger.user == actor.id)
        if trigger is None or not theirs or (trigger.status is Status.REMOVED and not removed):
            raise NotFound("trigger_not_found", trigger=trigger_id[:200])
        return trigger

    def _proposal(self, actor: Actor, tenant: str, trigger_id: str) -> Trigger:
        trigger = self._owned(actor, tenant, trigger_id)
        if actor.kind != "user":
            raise Denied("only_the_owner", layer="automation", missing=[])
        if trigger.status is not Status.PROPOSED:
            raise Conflict("trigger_not_proposed", status=str(trigger.status))
        return trigger

    @staticmethod
    def _need_person(actor: Actor) -> None:
        if actor.kind not in ("user", "operator"):
            raise Denied("agent_may_not_schedule", layer="automation", missing=[])


def _schedule(trigger: Trigger) -> Schedule | None:
    if trigger.kind not in TIMED:
        return None
    return compile_schedule(trigger.kind, read_spec(trigger.kind, trigger.spec), trigger.anchor)


def _fields(draft: Draft) -> dict[str, Any]:
    """The fields of a trigger that its owner chooses, its kind apart."""
    chosen = ("name", "agent", "spec", "skill", "prompt", "conversation", "preapproved", "mode", "max_attempts")
    fields = {name: getattr(draft, name) for name in (*chosen, "misfire", "misfire_bound")}
    return fields | {"rate": draft.limit}


def _draft_of(trigger: Trigger) -> Draft:
    """A stored trigger as it was asked for. Raises ``InvalidInput`` where it no longer holds."""
    return read_draft(_asked(trigger))


def _asked(trigger: Trigger) -> dict[str, Any]:
    fields = trigger.to_json()
    return {name: fields[name] for name in Draft.model_fields}
