"""Checking skill folders with what this machine has: the sandbox is made when a script is first tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prowess.kernel.clock import SystemClock
from prowess.validation.checking import LEVELS as LEVELS
from prowess.validation.checking import check_folder, keep_report
from prowess.validation.report import Report
from prowess.validation.syntax import Tally, check_tree

if TYPE_CHECKING:
    from prowess.sandbox.ports import Sandbox


class _Lazy:
    """A sandbox that is made when it is first asked for."""

    def __init__(self) -> None:
        self._made: Sandbox | None = None

    def __call__(self) -> Sandbox:
        if self._made is None:
            from prowess.runtime.sandboxing import environment_sandbox

            self._made = environment_sandbox(ready=2)
        return self._made

    def close(self) -> None:
        """Close it, where it was made."""
        if self._made is not None:
            self._made.close()


def check_skills(
    paths: Iterable[str], write: Callable[[str], None], language: str, level: str, *, keep: bool = False
) -> Tally:
    """Check skill folders and trees of them on a level of ``LEVELS``; ``write`` gets a JSON object for each.

    ``keep``: each report is written into the folder that it is about, too. Raises ``InvalidInput``
    (``sandbox_option``, ``report_not_written``, and for a broken list of advisories).
    """
    sandbox = _Lazy()

    def check(path: str) -> Report:
        report = check_folder(path, level, sandbox)
        if keep:
            keep_report(report, level, language, SystemClock().now())
        return report

    try:
        return check_tree(paths, write, language, check)
    finally:
        sandbox.close()
