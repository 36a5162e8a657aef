"""The process of a script: gives up what it may not touch, runs the script, says how it ended.

Runs inside the sandbox with the standard library of Python 3.9 alone. What is said here about the end is the script's
word: the host believes it where it accuses the script, and never where time, memory or success are concerned.
"""

from __future__ import annotations

import errno
import os
import sys
from types import CodeType, ModuleType

from prowess.adapters.sandboxes.bubblewrap.guest import confine, prowess_skill, quick_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, NoReturn

_REFUSED = (errno.EPERM, errno.EACCES, errno.EROFS, errno.EXDEV)
_CUT_OFF = (errno.ENETUNREACH, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT)
_OURS = ("/usr/", "/lib")
_MAX_TEXT = 500
_declared: list[str] = []
_places = {"skill": "/skill"}


def become(setting: dict[str, Any], channel: int, abi: int, source: int, done: int) -> NoReturn:
    """Turn this process into that of the script; never returns. ``source``: where the job comes from."""
    code = 1
    try:
        job = confine.wait_for_job(setting, abi, source, done)
        _places.update(setting["places"])
        _declared.extend(setting["read"] + setting["write"] + setting["delete"] + list(_places.values()))
        prowess_skill._channel = channel
        prowess_skill._owner = os.getpid()
        prowess_skill.input = job["input"]
        code = _ended(job)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def _ended(job: dict[str, Any]) -> int:
    """Run the script to its end: the exit code of the process."""
    try:
        value = _call(job)
        message = quick_json.dumps({"result": value})
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            prowess_skill._send({"result": prowess_skill._output})
            return 0
        prowess_skill._send(
            {"failure": {"kind": "exit", "exception": "SystemExit", "message": str(leaving.code)[:_MAX_TEXT]}}
        )
        return 3
    except BaseException as error:
        failure = _describe(error)
        _show(error)
        prowess_skill._send({"failure": failure})
        return 3
    prowess_skill._send_line(message)
    return 0


def _call(job: dict[str, Any]) -> Any:
    path = _places["skill"] + "/" + job["script"]
    with open(path, "rb") as file:
        source = file.read()
    code = compile(source, path, "exec", dont_inherit=True)
    name = _entry(code, job["entry"])
    module = ModuleType("__main__" if name is None else "prowess_script")
    module.__file__ = path
    sys.modules[module.__name__] = module
    sys.argv = [path]
    sys.path[:0] = [os.path.dirname(path), _places["skill"]]
    for known in [known for known in sys.modules if known.split(".")[0] == "prowess"]:
        del sys.modules[known]
    exec(code, module.__dict__)
    if name is None:
        return prowess_skill._output
    value = _with_input(getattr(module, name), job["input"])
    if hasattr(value, "__await__"):
        import asyncio

        value = asyncio.run(_awaited(value))
    return prowess_skill._output if value is None and prowess_skill._has_output else value


async def _awaited(value: Any) -> Any:
    return await value


def _entry(code: CodeType, wanted: str) -> str | None:
    """The function to call: one of the names, defined at the top of the file."""
    defined = {constant.co_name for constant in code.co_consts if isinstance(constant, CodeType)}
    return next((name for name in (wanted, "main", "run") if name in defined and name in code.co_names), None)


def _with_input(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Keyword arguments, or one object where the function takes a single ``params`` or ``input``."""
    code = getattr(function, "__code__", None)
    if code is None:
        return function(**given)
    names = code.co_varnames[: code.co_argcount]
    alone = code.co_argcount == 1 and not code.co_kwonlyargcount and not code.co_flags & 0x0C
    if alone and (code.co_posonlyargcount == 1 or (names[0] in ("params", "input") and names[0] not in given)):
        return function(given)
    return function(**given)


def _describe(error: BaseException) -> dict[str, Any]:
    """Kind, class, message and place of what the script raised."""
    file, line = _place(error.__traceback__)
    kind, denied = _kind(error)
    found = {"kind": kind, "exception": type(error).__name__[:100], "message": _text(error), "denied": denied}
    if isinstance(error, SyntaxError) and error.filename:
        file, line = str(error.filename), error.lineno or 0
    return {**found, "file": file.removeprefix(_places["skill"] + "/"), "line": line}


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_TEXT]
    except BaseException:
        return ""


def _kind(error: BaseException) -> tuple[str, list[str]]:
    asked = getattr(error, "asked", None)
    if isinstance(error, prowess_skill.Refused):
        return "denied", [str(asked)[:_MAX_TEXT]]
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "memory", []
    if isinstance(error, ValueError) and "raise maximum limit" in _text(error):
        return "denied", ["limit"]
    if isinstance(error, RuntimeError) and "start new thread" in _text(error):
        return "denied", ["processes"]
    if isinstance(error, OSError):
        return _of_os(error)
    return "error", []


def _of_os(error: OSError) -> tuple[str, list[str]]:
    where = error.filename
    path = os.fsdecode(where) if isinstance(where, (str, bytes)) else ""
    place = os.path.abspath(path) if path else ""
    if error.errno in _CUT_OFF or _within(error, "socket") or type(error).__name__ in ("gaierror", "URLError"):
        return "denied", ["network"]
    if error.errno in _REFUSED:
        return "denied", [f"file {place}" if place else "system call"]
    if error.errno == errno.ENOENT and place and not _within_reach(place):
        return "denied", [f"file {place}"]
    if isinstance(error, BlockingIOError) and _within(error, "subprocess"):
        return "denied", ["processes"]
    if error.errno in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT):
        return "denied", ["disk"]
    return ("denied", ["processes"]) if error.errno == errno.EAGAIN else ("error", [])


def _within_reach(place: str) -> bool:
    """Whether a path, links followed, is one that the script may look at: what is missing there is just missing."""
    real = os.path.realpath(place)
    return real.startswith(_OURS) or any(real == path or real.startswith(path + "/") for path in _declared)


def _within(error: BaseException, module: str) -> bool:
    """Whether it came out of a module of the standard library."""
    here = error.__traceback__
    while here is not None:
        if here.tb_frame.f_globals.get("__name__") == module:
            return True
        here = here.tb_next
    return False


def _place(here: TracebackType | None) -> tuple[str, int]:
    """The innermost line of the skill's own files."""
    file, line = "", 0
    while here is not None:
        name = here.tb_frame.f_code.co_filename
        if name.startswith(_places["skill"]):
            file, line = name, here.tb_lineno
        here = here.tb_next
    return file, line


def _show(error: BaseException) -> None:
    """The usual traceback on standard error, without the lines of this file."""
    import traceback

    here = error.__traceback__
    while here is not None and not here.tb_frame.f_code.co_filename.startswith(_places["skill"]):
        here = here.tb_next
    try:
        traceback.print_exception(type(error), error, here)
    except BaseException:
        pass
