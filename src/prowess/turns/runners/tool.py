"""Tool skills: run the handler with a time limit, and say honestly what came of it (X2)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from prowess.turns.definitions import Instruction, ToolContext, ToolSkill
from prowess.turns.words import instruct

logger = logging.getLogger(__name__)


class ToolFailure(Exception):
    """A call that brought no result. ``code`` has a sentence under ``tool.<code>``.

    ``timeout``, ``tool_error``, ``invalid_output``, ``stopped``, or a handler's own: of a script ``script_denied``,
    ``script_memory``, ``sandbox_refused``; of a mounted server those of ``mounts``.

    ``said``: what the other side said of it, quoted, for the model alone.
    """

    def __init__(self, code: str, said: str = "") -> None:
        self.code = code
        self.said = said
        super().__init__(code)


def validate_input(tool: ToolSkill, arguments: Mapping[str, Any]) -> BaseModel:
    """The arguments as the tool's input model. Raises ``ValidationError``; the handler is never reached then (X2)."""
    if not isinstance(arguments, Mapping):
        raise TypeError("arguments are a JSON object")
    return tool.input_schema.model_validate(dict(arguments))


def input_faults(error: ValidationError) -> list[dict[str, str]]:
    """Where and why arguments break their schema, without their values (R3)."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    return [{"place": ".".join(map(str, fault["loc"])) or "arguments", "fault": fault["type"]} for fault in faults]


def execute(
    tool: ToolSkill, context: ToolContext, arguments: BaseModel, ended: Callable[[], None] | None = None
) -> BaseModel:
    """Run the handler in a thread of its own for at most its timeout and validate what it returns.

    ``ended`` is called when the handler has really ended, even where nobody waits for it any more.

    A handler that outlives its timeout is told through ``context.cancel`` and its result is thrown away; a thread
    cannot be killed, so code that nobody vouches for runs in a sandbox process instead. Raises ``ToolFailure``.
    """
    box: dict[str, Any] = {}

    def work() -> None:
        try:
            box["output"] = tool.execute(context, arguments)
        except BaseException as error:  # sys.exit() in a handler is a failed call too
            box["error"] = error
        finally:
            if ended is not None:
                ended()

    thread = threading.Thread(target=work, name=f"tool {tool.tool_id}", daemon=True)
    thread.start()
    thread.join(tool.timeout.total_seconds())
    if thread.is_alive():
        context.cancel.cancel()
        raise ToolFailure("timeout")
    if isinstance(box.get("error"), ToolFailure):
        raise box["error"]  # a script that ended otherwise than well says how
    if "error" in box:
        # The exception's own text may quote the input, so only its type is logged (R3).
        logger.warning("tool %s raised %s", tool.tool_id, type(box["error"]).__name__)
        raise ToolFailure("tool_error") from box["error"]
    try:
        return tool.output_schema.model_validate(box["output"], from_attributes=True)
    except Exception as error:
        if not isinstance(error, ValidationError):
            logger.warning("output of tool %s raised %s", tool.tool_id, type(error).__name__)
        raise ToolFailure("invalid_output") from None


_WORDS = {
    "timeout": "tool_timeout",
    "invalid_input": "tool_invalid_input",
    "stopped": "tool_stopped",
    "tool_busy": "tool_busy",
    "quota_exhausted": "tool_over_budget",
    "script_denied": "script_denied",
    "script_memory": "script_memory",
    "sandbox_refused": "sandbox_refused",
}


def failure_instruction(tool: ToolSkill, code: str, language: str) -> Instruction:
    """What the agent says instead of a result: that it failed, and nothing invented (X2)."""
    name = tool.manifest.display_name or tool.manifest.id
    key = _WORDS.get(code, "tool_failed")
    return instruct(key, language, name=name)
