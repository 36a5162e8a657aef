"""Scheduling a background skill, by a person for themselves (B3, B9, G4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from prowess.access.model import Decision
from prowess.automation.jobs.ledger import JobLedger
from prowess.automation.jobs.model import Job, NewJob, Task
from prowess.automation.jobs.store import count_pending
from prowess.automation.tasks.skills import denied
from prowess.chat.model import ChatRef
from prowess.chat.service import ChatService
from prowess.errors import InvalidInput, LimitExceeded, NotFound
from prowess.events.log import EventLog
from prowess.events.model import Actor
from prowess.kernel.clock import iso
from prowess.kernel.ids import IdSource
from prowess.kernel.text import check_text
from prowess.turns.background import BackgroundCall, BackgroundGate, Prepared
from prowess.turns.definitions import BackgroundRequest, BackgroundSkill

MAX_NOTE = 2_000
"""characters"""
MAX_PENDING = 1_000
"""jobs of one user that may wait at the same time"""


class Wish(NamedTuple):
    """What a person asks for. Where it will speak, and in what words, is not theirs to choose (B3)."""

    tenant: str
    user: str
    agent: str
    skill: tuple[str, str]
    """id and version, visible for this user"""
    at: datetime
    note: str = ""


class JobScheduler:
    """Schedules background skills."""

    def __init__(
        self, log: EventLog, ids: IdSource, chat: ChatService, gate: BackgroundGate, ledger: JobLedger
    ) -> None:
        self._log = log
        self._ids = ids
        self._chat = chat
        self._gate = gate
        self._ledger = ledger

    def schedule(self, wish: Wish, skill: BackgroundSkill, *, actor: Actor) -> Job:
        """A job for that moment, if the gate lets it now; it is asked again when the moment comes.

        Raises ``InvalidInput`` (``time_too_early``, ``time_too_late``, ``job_payload``, and those of ``check_text``),
        ``NotFound('agent_not_found')``, ``Denied('job_denied')`` after an audit row, ``LimitExceeded('jobs_full')``.
        """
        self._check_time(wish, skill)
        note = check_text(wish.note, "note", limit=MAX_NOTE) if wish.note else ""
        with self._log.database.read() as connection:
            agent = self._chat.agent_for(connection, wish.tenant, wish.user, wish.agent)
            chat = self._chat.default_conversation(connection, wish.tenant, wish.user, wish.agent)
        chat = chat or ChatRef("conversation", self._ids.new("chat"))
        payload = _build_payload(skill, BackgroundRequest(agent.id, agent.name, chat.id, note))
        job_id = self._ids.new("job")
        call = BackgroundCall(job_id, wish.tenant, wish.user, wish.agent, chat, *wish.skill)
        prepared = self._gate.prepare([call], newcomer=agent)[job_id]
        if not isinstance(prepared, Prepared):
            raise NotFound("skill_not_found", skill=wish.skill[0])
        with self._log.transaction(wish.tenant) as transaction:
            decision = self._gate.decide(transaction.connection, [prepared])[job_id]
            job = None
            if decision.allowed:
                waiting = count_pending(transaction.connection, wish.tenant, wish.user)
                if waiting >= MAX_PENDING:
                    raise LimitExceeded("jobs_full", limit=MAX_PENDING)
                self._chat.take_seat(transaction, wish.tenant, chat, wish.user, wish.agent)
                job = self._ledger.add(transaction, _new_job(wish, skill, call, payload, decision), actor=actor)
            else:
                transaction.emit(
                    "job.decided",
                    tenant=wish.tenant,
                    actor=actor,
                    user=wish.user,
                    agent=wish.agent,
                    skill=wish.skill,
                    target=job_id,
                    decision="denied",
                    reason=decision.reason,
                    layer=None if decision.layer is None else str(decision.layer),
                    missing=list(decision.missing),
                )
        if job is None:
            raise denied(decision)
        self._ledger.announce([job])
        return job

    def _check_time(self, wish: Wish, skill: BackgroundSkill) -> None:
        now = self._log.clock.now()
        earliest, latest = now + skill.earliest, now + skill.latest
        if wish.at < earliest:
            raise InvalidInput("time_too_early", field="at", at=iso(wish.at), earliest=iso(earliest))
        if wish.at > latest:
            raise InvalidInput("time_too_late", field="at", at=iso(wish.at), latest=iso(latest))


def _build_payload(skill: BackgroundSkill, request: BackgroundRequest) -> Mapping[str, Any]:
    try:
        return skill.payload_schema.model_validate(dict(skill.build_payload(request))).model_dump(mode="json")
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise InvalidInput("job_payload", field=place, cause=fault["msg"]) from None


def _new_job(
    wish: Wish, skill: BackgroundSkill, call: BackgroundCall, payload: Mapping[str, Any], decision: Decision
) -> NewJob:
    return NewJob(
        id=call.job_id,
        tenant=wish.tenant,
        user=wish.user,
        agent=wish.agent,
        chat=call.chat,
        task=Task.SKILL,
        skill=wish.skill,
        grant_id=decision.grants[0].id if decision.grants else None,
        payload=payload,
        due=wish.at,
        max_attempts=skill.max_attempts,
    )
