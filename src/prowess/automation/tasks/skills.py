"""Jobs that run a background skill (B3, B8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from prowess.access.model import Decision
from prowess.access.quotas.model import Quota, Use
from prowess.automation.jobs.ledger import emit_job
from prowess.automation.jobs.model import Job
from prowess.automation.jobs.outcome import Outcome, outcome_of
from prowess.automation.jobs.runner import Hold, InstantRunner
from prowess.chat.batches import insert_messages
from prowess.chat.model import Message
from prowess.errors import Denied
from prowess.events.log import EventLog, Transaction
from prowess.memory.service import MemoryService
from prowess.secrets.service import SecretService
from prowess.turns.background import BackgroundCall, BackgroundGate, Prepared, Unserved
from prowess.turns.budgets import Budgets, exhausted_error
from prowess.turns.definitions import BackgroundContext


class SkillRunner(InstantRunner):
    """Runs background skills: those that compose one message inside the claim, those that execute outside."""

    def __init__(
        self, log: EventLog, gate: BackgroundGate, memory: MemoryService, secrets: SecretService, budgets: Budgets
    ) -> None:
        self._log = log
        self._gate = gate
        self._memory = memory
        self._secrets = secrets
        self._budgets = budgets

    def prepare(self, jobs: Sequence[Job]) -> Mapping[str, Any]:
        """What the gate has to know of each job whose row names all that a background skill needs."""
        found = self._gate.prepare(call for call in map(call_of, jobs) if call is not None)
        return {
            job.id: _Ready(job, item) if isinstance(item, Prepared) else item
            for job in jobs
            if (item := found.get(job.id)) is not None
        }

    def admit(self, transaction: Transaction, jobs: Sequence[Job], prepared: Mapping[str, Any]) -> Mapping[str, str]:
        """Whether the gate lets each of them, decided now and audited."""
        ready = [item.call for job in jobs if isinstance(item := prepared.get(job.id), _Ready)]
        decisions = self._gate.decide(transaction.connection, ready)
        refused: dict[str, str] = {}
        for job in jobs:
            item, decision = prepared.get(job.id), decisions.get(job.id)
            if decision is not None:
                audit_decision(transaction, job, decision)
            code = _refusal(item, decision)
            if code is not None:
                refused[job.id] = code
                if decision is None:
                    emit_job(transaction, "job.decided", job, decision="denied", reason=code)
        return refused

    def is_instant(self, job: Job, prepared: Mapping[str, Any]) -> bool:
        """A skill that composes; and a job that cannot be served at all, which is over at once."""
        item = prepared.get(job.id)
        return not isinstance(item, _Ready) or item.call.skill.compose is not None

    def apply(
        self, transaction: Transaction, jobs: Sequence[Job], prepared: Mapping[str, Any]
    ) -> Mapping[str, Outcome]:
        """Compose and store each message under its job's id (B8)."""
        failed: dict[str, Outcome] = {}
        said: list[Message] = []
        known = self._budgets.known(transaction.connection, transaction.tenant or "")
        for job in jobs:
            ready: _Ready = prepared[job.id]
            item = ready.call
            assert item.skill.compose is not None
            try:
                self._use_up(transaction, item, known)
                text = item.skill.compose(ready.payload(), item.agent.language)
            except Exception as error:
                failed[job.id] = outcome_of(error, transaction.now)
            else:
                said.append(_message(item.call, job.id, text, transaction))
        if said:
            insert_messages(transaction.connection, transaction.tenant or "", said)
        return failed

    def run(self, job: Job, prepared: Mapping[str, Any], hold: Hold) -> Outcome:
        """One attempt of a skill that executes. Raises what the handler raises."""
        ready: _Ready = prepared[job.id]
        item = ready.call
        assert item.skill.execute is not None
        with self._log.transaction(job.tenant) as transaction:
            hold.fence(transaction.connection)
            self._use_up(transaction, item, self._budgets.known(transaction.connection, job.tenant))
        context = self._context(job, item, hold)
        item.skill.execute(context, ready.payload())
        return Outcome("done", result=job.id)

    def _use_up(self, transaction: Transaction, item: Prepared, known: Sequence[Quota]) -> None:
        """Count a job on its budgets. Raises ``LimitExceeded('quota_exhausted')``: it is put off until one frees up."""
        call = item.call
        use = Use(call.tenant, call.user, call.agent, call.skill_id, job=call.job_id)
        exhausted = self._budgets.use_up(transaction, use, item.skill.manifest, known)
        if exhausted is not None:
            raise exhausted_error(exhausted, transaction.now)

    def _context(self, job: Job, item: Prepared, hold: Hold) -> BackgroundContext:
        call, manifest = item.call, item.skill.manifest
        with self._log.database.read() as connection:
            decision = self._gate.decide(connection, [item])[job.id]
        codes = {grant.code for grant in decision.grants}
        layers = frozenset(str(layer) for layer in manifest.permissions.memory.read_layers)
        readable = "memory:read" in codes and layers
        return BackgroundContext(
            tenant=call.tenant,
            user=call.user,
            agent=call.agent,
            language=item.agent.language,
            now=self._log.clock.now(),
            job_id=job.id,
            attempt=job.attempts,
            cancel=hold.cancel,
            send=_Sender(self._log, self._gate, job, item, hold).send,
            memories=self._memory.reader(call.tenant, call.user, call.agent, layers) if readable else None,
            secrets=self._opened(item),
        )

    def _opened(self, item: Prepared) -> dict[str, SecretStr]:
        call = item.call
        opened: dict[str, SecretStr] = {}
        for slot in item.skill.secrets:
            owner = slot.owner(tenant=call.tenant, user=call.user, skill=call.skill_id)
            opened[slot.name] = self._secrets.open(call.tenant, owner, slot.name)
        return opened


class _Ready:
    """A job that the gate can be asked about."""

    __slots__ = ("_job", "_payload", "call")

    def __init__(self, job: Job, call: Prepared) -> None:
        self.call = call
        self._job = job
        self._payload: BaseModel | None = None

    def payload(self) -> BaseModel:
        """The payload as its skill reads it, validated once. Raises ``ValidationError``."""
        if self._payload is None:
            self._payload = self.call.skill.payload_schema.model_validate(self._job.payload)
        return self._payload


class _Sender:
    """The ``send`` of one attempt."""

    def __init__(self, log: EventLog, gate: BackgroundGate, job: Job, item: Prepared, hold: Hold) -> None:
        self._log = log
        self._gate = gate
        self._job = job
        self._item = item
        self._hold = hold
        self._sent = 0

    def send(self, text: str) -> str:
        """Store the next message, if the gate lets it now and nobody else has the job (C30, C56)."""
        message_id = self._job.id if self._sent == 0 else f"{self._job.id}/{self._sent}"
        with self._log.transaction(self._job.tenant) as transaction:
            self._hold.fence(transaction.connection)
            decision = self._gate.decide(transaction.connection, [self._item])[self._job.id]
            audit_decision(transaction, self._job, decision)
            if decision.allowed:
                self._hold.observe("before_effect")
                message = _message(self._item.call, message_id, text, transaction)
                insert_messages(transaction.connection, self._job.tenant, [message])
        if not decision.allowed:
            raise denied(decision)
        self._hold.observe("after_effect")
        self._sent += 1
        return message_id


def call_of(job: Job) -> BackgroundCall | None:
    """The call that a job is; null where its row names no skill, agent or conversation."""
    if job.skill is None or job.agent is None or job.chat is None:
        return None
    return BackgroundCall(job.id, job.tenant, job.user, job.agent, job.chat, *job.skill)


def denied(decision: Decision) -> Denied:
    """The gate's no as an error: ``job_denied`` with layer, reason and missing codes."""
    layer = None if decision.layer is None else str(decision.layer)
    return Denied("job_denied", layer=layer, reason=decision.reason, missing=list(decision.missing))


def audit_decision(transaction: Transaction, job: Job, decision: Decision) -> None:
    """What the gate said of a job, with the grants that served (R2)."""
    emit_job(
        transaction,
        "job.decided",
        job,
        decision="allowed" if decision.allowed else "denied",
        reason=decision.reason,
        layer=None if decision.layer is None else str(decision.layer),
        missing=decision.missing or None,
        grants=[grant.id for grant in decision.grants] or None,
        rule=decision.rule,
    )


def _refusal(item: _Ready | Unserved | None, decision: Decision | None) -> str | None:
    """Why the job may not run; null where it may. Each of them is for good (B6)."""
    if item is None:
        return "job_corrupted"
    if isinstance(item, Unserved):
        return item.code
    if decision is None or not decision.allowed:
        return "could_not_decide" if decision is None else decision.reason
    try:
        item.payload()
    except ValidationError:
        return "invalid_payload"
    return None


def _message(call: BackgroundCall, message_id: str, text: str, transaction: Transaction) -> Message:
    return Message(message_id, call.chat, "agent", call.agent, text, None, None, None, transaction.now)
