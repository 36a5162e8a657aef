"""A server as a child process that speaks MCP over its standard input and output.

The transport of the ``mcp`` package has no limit on the length of a message and shows the server's standard error on
ours; this one has a limit, and throws standard error away: it may hold a secret (U4).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

MAX_MESSAGE = 4_194_304
"""bytes of one message from a server"""
GRACE_S = 1.0
"""between closing its input, SIGTERM and SIGKILL"""
INHERITED = ("PATH", "HOME", "LANG")


def environment(names: Sequence[str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of the child: little of ours, and what it was given."""
    taken = {name: os.environ[name] for name in (*INHERITED, *names) if name in os.environ}
    return taken | dict(secrets)


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str], variables: Mapping[str, str], ended: Callable[[bool], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Start the child in a session of its own; its whole process group is gone when this is left.

    ``ended(too_long)`` is called when it says nothing more. Raises ``OSError`` where it cannot be started.
    """
    import anyio

    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(variables),
        start_new_session=True,
        limit=MAX_MESSAGE,
    )
    to_us, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, from_us = anyio.create_memory_object_stream[Any](0)
    tasks = (asyncio.create_task(_read(process, to_us, ended)), asyncio.create_task(_write(process, from_us)))
    try:
        yield incoming, outgoing
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_us, incoming, outgoing, from_us):
                stream.close()


async def _read(
    process: asyncio.subprocess.Process, to_us: MemoryObjectSendStream[Any], ended: Callable[[bool], None]
) -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    assert process.stdout is not None
    too_long = False
    try:
        while line := await process.stdout.readline():
            try:
                message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError as error:
                message = error
            await to_us.send(message)
    except ValueError:  # a line beyond the limit
        too_long = True
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        pass
    finally:
        ended(too_long)
        to_us.close()


async def _write(process: asyncio.subprocess.Process, from_us: MemoryObjectReceiveStream[Any]) -> None:
    import anyio

    assert process.stdin is not None
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async for item in from_us:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask it to go, then make it; it is reaped, and so is whatever it started in its group."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_S)
            break
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    transport = getattr(process, "_transport", None)
    if transport is not None:  # a grandchild that left the group may hold the pipes open
        transport.close()
