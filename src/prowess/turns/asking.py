"""What of a tool call is kept while it waits for a person's yes (G13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prowess.access.approvals.model import MAX_ARGUMENTS, AskedCall
from prowess.access.model import ApprovalMode, Risk
from prowess.kernel.canonical import compact_json
from prowess.kernel.redaction import Redactor
from prowess.turns.questions import Asked, Call


def kept_arguments(plain: Mapping[str, Any], redactor: Redactor) -> str | None:
    """The validated arguments as JSON; null where they cannot wait.

    They are too long, or hold a secret of the tenant: stored, it would be redacted, and be another call.
    """
    text = compact_json(plain)
    if len(text) > MAX_ARGUMENTS or (redactor and redactor.redact_value(plain) != plain):
        return None
    return text


def seats_of(call: Call) -> int:
    """How many people must approve: two for what is irreversible."""
    return 2 if any(item.risk is Risk.L4 for item in call.tool.manifest.permission_requirements) else 1


def asked_call(call: Call, call_id: str, asked: Asked, arguments: str, rule: str | None) -> AskedCall:
    """The call as an approval is bound to it."""
    request, tool = call.request, call.tool
    needed = tool.manifest.permission_requirements
    touched = [item for item in needed if not (item.risk is Risk.L0 and item.approval is ApprovalMode.NONE)]
    risk = max((item.risk for item in needed), default=Risk.L0)
    return AskedCall(
        call_key=call.key,
        call_id=call_id,
        tenant=request.tenant,
        user=request.user,
        agent=request.agent,
        chat=request.chat,
        message_id=request.message_id,
        ordinal=call.ordinal,
        tool=tool.tool_id,
        skill_id=tool.manifest.id,
        skill_version=tool.manifest.version,
        verb=tool.effect,
        resource=asked.resource,
        codes=tuple(item.code for item in touched),
        input_digest=asked.input_digest or "",
        arguments=arguments,
        rule=rule,
        risk=str(risk),
        destructive=tool.destructive or risk is Risk.L4,
        origin=request.origin,
        run_id=call.run_id,
        language=call.language,
        above=call.view.rights.above,
    )
