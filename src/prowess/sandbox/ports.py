"""What runs scripts. Adapters: bubblewrap, Landlock alone (reduced, by choice), and one that refuses."""

from __future__ import annotations

from typing import Any, Protocol

from prowess.sandbox.model import Isolation, SandboxJob, SandboxResult, ScriptCall


class ScriptCallRefused(Exception):
    """The host's answer to a call that it does not make. ``code`` has a sentence under ``error.<code>``."""

    def __init__(self, code: str, message: str = "") -> None:
        self.code = code
        self.message = message
        super().__init__(code)


class ScriptHost(Protocol):
    """Answers what a running script asks over its channel; each call passes the same gate as a model's."""

    def answer(self, call: ScriptCall) -> Any:
        """A JSON value. Blocks; called from one thread at a time.

        For ``command`` null says that the program may be run: the sandbox runs it. Raises ``ScriptCallRefused``.
        """
        ...


class Cancellation(Protocol):
    """Says when a run is to be stopped; ``turns.definitions.CancelToken`` is one."""

    @property
    def cancelled(self) -> bool:
        """Whether it is."""
        ...


class Sandbox(Protocol):
    """Runs scripts, or refuses to."""

    @property
    def name(self) -> str:
        """``bubblewrap``, ``landlock`` or ``refuse``; shown by ``prowess doctor``."""
        ...

    @property
    def isolation(self) -> Isolation:
        """What its self-test found, asked once per boot of the machine."""
        ...

    def run(self, job: SandboxJob, host: ScriptHost | None = None, cancel: Cancellation | None = None) -> SandboxResult:
        """Run one script to its end. Blocks; safe to call from any thread.

        ``host`` null: every call over the channel is refused. Never raises for what the script did.
        """
        ...

    def close(self) -> None:
        """Stop what is kept ready; what runs is cancelled."""
        ...
