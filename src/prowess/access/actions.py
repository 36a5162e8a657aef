"""What a call really does, whatever it is wrapped in (U5, case C89).

An "always allow" binds tool, verb and resource. A tool says what its resource is; where it does not, the resource is
the digest of the call's arguments, so that other arguments are another action. For a command the resource is its exact
words: no prefix of a wrapper (``env``, ``sh -c``, ``xargs``) ever stands for what is wrapped.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from prowess.access.model import EffectiveAction, Verb
from prowess.errors import InvalidInput
from prowess.kernel.canonical import compact_json, digest

MAX_COMMAND = 100_000


def effective_action(tool: str, verb: Verb, resource: str | None, arguments: Mapping[str, Any]) -> EffectiveAction:
    """The action of a call: on ``resource`` where the tool names one, else on these very arguments."""
    return EffectiveAction(tool, verb, resource if resource is not None else f"arguments {digest(dict(arguments))}")


def command_resource(command: str | Sequence[str]) -> str:
    """A command as a resource: its words as JSON, so that no two commands read alike.

    Raises ``InvalidInput`` (``bad_command``) where quotes do not close or there are no words.
    """
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError:
        raise InvalidInput("bad_command", field="command") from None
    if not words or not all(isinstance(word, str) for word in words) or sum(map(len, words)) > MAX_COMMAND:
        raise InvalidInput("bad_command", field="command")
    return f"command {compact_json(words)}"
