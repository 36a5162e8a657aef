"""Running an admitted call: what its handler may use, its secrets, and what it returned (X2, M2, U4, U10)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal

from pydantic import BaseModel, SecretStr, ValidationError

from prowess.access.model import Decision
from prowess.errors import ProwessError
from prowess.events.log import EventLog
from prowess.memory.service import MemoryService
from prowess.messages import render
from prowess.secrets.service import SecretService
from prowess.turns.activity import ACTIVITY, ScopedActivity
from prowess.turns.definitions import CancelToken, Proposals, ToolContext
from prowess.turns.outcome import ToolOutcome
from prowess.turns.questions import Call
from prowess.turns.request import TurnRequest
from prowess.turns.runners.tool import ToolFailure, execute
from prowess.turns.scripting import ScriptChannel

ChannelSource = Callable[[Call, str, CancelToken], ScriptChannel]
"""(call, its id, its token) → what its script may ask"""
ProposalSource = Callable[[TurnRequest], Proposals]
"""(the turn) → where a tool of it leaves proposals"""


class Handling:
    """Runs handlers. No transaction is open meanwhile."""

    def __init__(self, log: EventLog, memory: MemoryService, secrets: SecretService) -> None:
        self._log = log
        self._memory = memory
        self._secrets = secrets
        self.proposals: ProposalSource | None = None
        """set by the composition root: who keeps proposals stands above turns"""
        self.channels: ChannelSource | None = None
        """set by the composition root: a script's calls go through the dispatcher, which has this"""

    def run(self, call: Call, call_id: str, validated: BaseModel, decision: Decision) -> ToolOutcome:
        """What the handler of an admitted call came to.

        Once the turn is stopped the handler is told, and what it returns after that is thrown away: how far it came is
        not known (U7, U10).
        """
        tool, token = call.tool.tool_id, CancelToken(None if call.within is None else call.within.cancel)
        try:
            with nullcontext() if call.stop is None else call.stop.busy():
                ended = None if call.stop is None else call.stop.begin(f"{tool} ({call_id})", token)
                output = self._redacted(call, self._run(call, call_id, decision, validated, token, ended))
            if call.stop is not None and call.stop.stopped:
                raise ToolFailure("stopped")
        except ToolFailure as failure:
            code = "stopped" if call.stop is not None and call.stop.stopped else failure.code
            status: Literal["timeout", "failed"] = "timeout" if code == "timeout" else "failed"
            message = render(f"tool.{code}", call.language, {"tool": tool})
            if failure.said and code == failure.code:
                message += "\n" + self._secrets.redactor(call.request.tenant).redact(failure.said)
            return ToolOutcome(call_id, tool, status, decision=decision, error_code=code, message=message)
        return ToolOutcome(call_id, tool, "succeeded", output=output, decision=decision)

    def _run(
        self,
        call: Call,
        call_id: str,
        decision: Decision,
        validated: BaseModel,
        token: CancelToken,
        ended: Callable[[], None] | None,
    ) -> BaseModel:
        try:
            context = self._context(call, call_id, decision, token)
        except BaseException:
            if ended is not None:
                ended()
            raise
        return execute(call.tool, context, validated, ended)

    def _redacted(self, call: Call, output: BaseModel) -> BaseModel:
        """The output without secrets: whoever reads it, no one needs them (U4). Raises ``ToolFailure``."""
        redactor = self._secrets.redactor(call.request.tenant)
        if not redactor:
            return output
        plain = output.model_dump(mode="json")
        redacted = redactor.redact_value(plain)
        if redacted == plain:
            return output
        try:
            return call.tool.output_schema.model_validate(redacted)
        except ValidationError:
            raise ToolFailure("invalid_output") from None

    def _opened(self, call: Call) -> dict[str, SecretStr]:
        """What the declared slots hold. A slot that is empty fails the call: nobody else's stands in (U4)."""
        request = call.request
        opened: dict[str, SecretStr] = {}
        for slot in call.tool.secrets:
            owner = slot.owner(tenant=request.tenant, user=request.user, skill=call.tool.manifest.id)
            try:
                opened[slot.name] = self._secrets.open(request.tenant, owner, slot.name)
            except ProwessError as error:
                raise ToolFailure(error.code) from None
        return opened

    def _context(self, call: Call, call_id: str, decision: Decision, token: CancelToken) -> ToolContext:
        """The resources that the skill declared and the user granted, and nothing else (M2). Raises ``ToolFailure``."""
        request, manifest = call.request, call.tool.manifest
        granted = {grant.code for grant in decision.grants}
        layers = frozenset(str(layer) for layer in manifest.permissions.memory.read_layers)
        readable = "memory:read" in granted and layers
        channels = None if call.tool.script is None else self.channels
        source = self.proposals if "automation:propose" in granted else None
        return ToolContext(
            tenant=request.tenant,
            user=request.user,
            agent=request.agent,
            language=call.language,
            now=self._log.clock.now(),
            cancel=token,
            secrets=self._opened(call),
            proposals=None if source is None else source(request),
            memories=self._memory.reader(request.tenant, request.user, request.agent, layers) if readable else None,
            activity=ScopedActivity(self._log, request) if ACTIVITY in granted else None,
            channel=None if channels is None else channels(call, call_id, token),
        )
