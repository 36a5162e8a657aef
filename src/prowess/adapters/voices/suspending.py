"""What a model's loop hands out when it stops for a yes, and takes back in another process (G13)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from prowess.errors import VoiceError
from prowess.turns.ports import Resumed

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

STATE_VERSION = 1


class KeptReply(NamedTuple):
    """A reply as it stopped, with an answer for every call of its last response."""

    messages: list[ModelMessage]
    tokens: int
    """used before"""
    requests: int
    """made before"""


def dump_state(
    messages: Sequence[ModelMessage],
    answers: Mapping[str, Mapping[str, Any]],
    waiting: Mapping[str, str],
    *,
    tokens: int,
    requests: int,
) -> str:
    """The state as JSON: the messages, the answers by call id, and the approvals by call id."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    state = {
        "version": STATE_VERSION,
        "messages": ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"),
        "answers": {call: dict(answer) for call, answer in answers.items() if call not in waiting},
        "waiting": dict(waiting),
        "tokens": tokens,
        "requests": requests,
    }
    return json.dumps(state, ensure_ascii=False, separators=(",", ":"))


def load_state(resumed: Resumed) -> KeptReply:
    """The reply with one true result for every call id. Raises ``VoiceError('voice_state')`` where it is no state."""
    from pydantic import ValidationError
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, ToolReturnPart

    try:
        state = json.loads(resumed.state)
        if state["version"] != STATE_VERSION:
            raise VoiceError("voice_state")
        messages = ModelMessagesTypeAdapter.validate_python(state["messages"])
        answers = {**state["answers"], **{call: resumed.outcomes[name] for call, name in state["waiting"].items()}}
        last = messages[-1]
        if not isinstance(last, ModelResponse):
            raise VoiceError("voice_state")
        parts = [
            ToolReturnPart(call.tool_name, dict(answers[call.tool_call_id]), tool_call_id=call.tool_call_id)
            for call in last.tool_calls
        ]
        return KeptReply([*messages, ModelRequest(parts=parts)], int(state["tokens"]), int(state["requests"]))
    except (ValueError, KeyError, TypeError, IndexError, ValidationError):
        raise VoiceError("voice_state") from None
