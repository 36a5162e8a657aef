"""The process of a program that a script asked for: gives up what it may not touch, and becomes the program.

Runs inside the sandbox with the standard library of Python 3.9 alone.
"""

from __future__ import annotations

import os

from prowess.adapters.sandboxes.bubblewrap.guest import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_NOT_STARTED = 126
"""the exit code of a shell for what it found and could not start"""


def become(setting: dict[str, Any], channel: int, abi: int, source: int, done: int) -> NoReturn:
    """Turn this process into the program; never returns. ``source``: where its words and its input come from."""
    try:
        os.close(channel)
        job = confine.wait_for_job(setting, abi, source, done)
        _feed(job["input"], setting["places"]["tmp"])
        os.execve(setting["command"][0], job["argv"], dict(os.environ))
    except BaseException as error:
        os.write(2, type(error).__name__.encode() + b"\n")
    finally:
        os._exit(_NOT_STARTED)


def _feed(text: str, area: str) -> None:
    """Make the text standard input."""
    place = area + "/.input"
    with open(place, "wb") as file:
        file.write(text.encode(errors="surrogatepass"))
    reading = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    os.unlink(place)
    os.dup2(reading, 0)
