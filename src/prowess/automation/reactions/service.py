"""A follower of the log: events of a person's own turns make their reactions fire (B2).

A turn that a trigger started never fires that same trigger, and at most three triggers lead to one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, select

from prowess.access.approvals.model import TurnKey
from prowess.automation.delegation.store import root_of
from prowess.automation.triggers.firing import MAX_DEPTH, Firing, Occasion
from prowess.automation.triggers.model import Fire, Kind, Trigger
from prowess.automation.triggers.specs import REACTION_EVENTS, ReactionSpec, read_spec
from prowess.automation.triggers.store import active_triggers, fire_of_job, latest_fire
from prowess.errors import InvalidInput
from prowess.events.followers import Follower
from prowess.events.log import EventLog, Transaction, events
from prowess.events.model import Event
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import iso
from prowess.turns.request import TRIGGER_PREFIX
from prowess.turns.store import turns

FOLLOWER = "automation.reactions"
_CONCERNING = events.c.type.in_(REACTION_EVENTS) & events.c.user_id.is_not(None)


class Reactions:
    """Fires reactions; ``catch_up`` handles all that the log holds."""

    def __init__(self, log: EventLog, firing: Firing) -> None:
        self._log = log
        self._firing = firing

    def look_after(self) -> datetime | None:
        """Catch up. A duty of the worker; what is added is due at once."""
        self.catch_up()
        return None

    def catch_up(self) -> int:
        """Handle the events since the last call, by whichever process; returns how many."""
        made: list[Fire | None] = []
        handled = Follower(self._log, FOLLOWER, partial(self._handle, made), only=_CONCERNING).catch_up()
        self._firing.announce(made)
        return handled

    def _handle(self, made: list[Fire | None], transaction: Transaction, wanted: Sequence[Event]) -> None:
        owners = {(event.tenant, event.user or "") for event in wanted}
        waiting = active_triggers(transaction.connection, Kind.REACTION, owners)
        read = [(trigger, spec) for trigger in waiting if (spec := _spec(trigger)) is not None]
        for event in wanted:
            for trigger, spec in read:
                if _concerns(trigger, spec, event):
                    made.append(self._react(transaction, trigger, event))

    def _react(self, transaction: Transaction, trigger: Trigger, event: Event) -> Fire | None:
        cause = _cause(transaction.connection, event)
        depth = 0 if cause is None else cause.depth + 1
        occasion = Occasion(slot=f"event {event.seq}", source="event", data=_described(event), depth=depth)
        if cause is not None and (cause.trigger == trigger.id or depth >= MAX_DEPTH):
            return self._firing.stop_loop(transaction, trigger, occasion)
        return self._firing.fire(transaction, trigger, occasion)


def _spec(trigger: Trigger) -> ReactionSpec | None:
    try:
        spec = read_spec(trigger.kind, trigger.spec)
    except InvalidInput:
        return None
    return spec if isinstance(spec, ReactionSpec) else None


def _concerns(trigger: Trigger, spec: ReactionSpec, event: Event) -> bool:
    """Whether this is an event of the owner's that the trigger waits for, since it was made active."""
    return (
        (event.tenant, event.user) == (trigger.tenant, trigger.user)
        and event.type in spec.events
        and event.at >= trigger.active_since
        and spec.agent in (None, event.agent)
        and spec.conversation in (None, event.chat_id)
        and spec.skill in (None, event.skill_id)
    )


def _cause(connection: Connection, event: Event) -> Fire | None:
    """The fire that led to this event, where its turn was started by a trigger.

    A job's id is the id of its message (B8). Where the turn says that a trigger started it and no fire has that job,
    the trigger's latest one stands for it: better stopped too early than never.
    """
    turn = _turn_of(connection, event)
    job_id = event.target if event.type == "automation.completed" else turn and turn.message_id
    if job_id is None:
        return None
    found = fire_of_job(connection, event.tenant, job_id)
    if found is not None or turn is None:
        return found
    query = select(turns.c.origin).where(
        turns.c.tenant == turn.tenant,
        turns.c.chat_kind == turn.chat[0],
        turns.c.chat_id == turn.chat[1],
        turns.c.message_id == turn.message_id,
    )
    origin = connection.execute(query.limit(1)).scalar() or ""
    if not origin.startswith(TRIGGER_PREFIX):
        return None
    return latest_fire(connection, event.tenant, origin.removeprefix(TRIGGER_PREFIX))


def _turn_of(connection: Connection, event: Event) -> TurnKey | None:
    """The turn of an event; of a delegate's turn the outermost one, which a trigger may have started."""
    if event.message_id is None or event.chat_kind is None or event.chat_id is None:
        return None
    chat = (event.chat_kind, event.chat_id)
    return root_of(connection, TurnKey(event.tenant, chat, event.message_id, event.agent or ""))


def _described(event: Event) -> str:
    """The event without any text of people: ids and names alone (R3)."""
    told = {
        "type": event.type,
        "at": iso(event.at),
        "agent": event.agent,
        "conversation": event.chat_id,
        "message_id": event.message_id,
        "skill": event.skill_id,
        "session_id": event.session_id,
        "run_id": event.run_id,
    }
    return compact_json({name: value for name, value in told.items() if value is not None})
