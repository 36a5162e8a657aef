"""Scripts of files in the sandbox, and what the machine can do, for the command line: without a database."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prowess.adapters.sandboxes.choosing import choose_sandbox
from prowess.errors import InvalidInput
from prowess.sandbox.model import Isolation, SandboxJob, SandboxProfile, SandboxResult, ScriptFile
from prowess.sandbox.ports import Sandbox
from prowess.sandbox.profile import compile_profile

SANDBOX_VARIABLE = "PROWESS_SANDBOX"
MAX_SCRIPT_BYTES = 1024 * 1024
MAX_INPUT_BYTES = 1024 * 1024
MAX_PERMISSIONS_BYTES = 64 * 1024


def environment_sandbox(*, ready: int = 0) -> Sandbox:
    """The sandbox that ``PROWESS_SANDBOX`` names; unset: ``auto``. Raises ``InvalidInput('sandbox_option')``."""
    return choose_sandbox(os.environ.get(SANDBOX_VARIABLE) or "auto", ready=ready)


def sandbox_fault(sandbox: Sandbox) -> str:
    """Why a sandbox does not isolate in full, in a few words; empty where it does."""
    if sandbox.isolation is Isolation.FULL:
        return ""
    from prowess.adapters.sandboxes.describing import fault_of

    return fault_of(sandbox)


def run_file(file: str, permissions: str | None, given: Mapping[str, Any], *, entry: str = "main") -> SandboxResult:
    """Run one Python file.

    ``permissions``: a YAML file with the ``permissions`` section of a skill, with or without that key, and at will
    ``constraints``. Raises ``InvalidInput``: ``sandbox_file``, ``sandbox_permissions`` and those of the profile.
    """
    script = ScriptFile(Path(file).name, _read(file, MAX_SCRIPT_BYTES))
    profile = SandboxProfile() if permissions is None else read_profile(permissions)
    sandbox = environment_sandbox()
    try:
        return sandbox.run(SandboxJob((script,), script.path, entry, given, profile))
    finally:
        sandbox.close()


def read_profile(file: str) -> SandboxProfile:
    """The profile that a permissions file comes to. Raises ``InvalidInput``."""
    from pydantic import ValidationError

    from prowess.kernel.yaml_nodes import YamlFault, compose, value_of
    from prowess.skills.manifest import Constraints, ResourcePermissions

    try:
        node = compose(_read(file, MAX_PERMISSIONS_BYTES).decode())
    except YamlFault as fault:
        raise InvalidInput("sandbox_permissions", file=file[-200:], line=fault.line, cause=fault.code) from None
    except UnicodeDecodeError:
        raise InvalidInput("sandbox_permissions", file=file[-200:], line=1, cause="UTF-8") from None
    document = {} if node is None else value_of(node)
    if not isinstance(document, dict):
        raise InvalidInput("sandbox_permissions", file=file[-200:], line=1, cause="mapping")
    constraints = document.pop("constraints", {}) or {}
    section = document.pop("permissions", None)
    if section is None or document:
        section = {**(section or {}), **document}
    try:
        return compile_profile(ResourcePermissions.model_validate(section), Constraints.model_validate(constraints))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidInput("sandbox_permissions", file=file[-200:], line=0, cause=f"{place}: {first['msg']}") from None


def result_to_json(result: SandboxResult, language: str = "en") -> dict[str, Any]:
    """A run as the contract has it, with the error where it did not end well."""
    from prowess.messages import render

    detail = {**result.detail}
    error = None
    if result.code is not None:
        shown = [render(f"{kind}.{result.code}", language, detail) for kind in ("error", "remedy")]
        error = {"code": result.code, "message": shown[0], "detail": detail, "remedy": shown[1]}
    return {
        "status": str(result.status),
        "output": result.output,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "duration_ms": result.duration_ms,
        "peak_mb": result.peak_mb,
        "isolation": str(result.isolation),
        "denied": list(result.denied),
        "artifacts": [{"path": file.path, "bytes": len(file.content)} for file in result.artifacts],
        "calls": result.calls,
        **({"error": error} if error else {}),
    }


def examine_machine() -> dict[str, Any]:
    """What the self-test finds now: ``{"sandbox", "isolation", "fault", "canaries": {name: bool}, …}``."""
    from prowess.adapters.sandboxes.describing import describe

    return describe(os.environ.get(SANDBOX_VARIABLE) or "auto")


def _read(file: str, limit: int) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(limit + 1)
    except (OSError, ValueError) as error:
        raise InvalidInput("sandbox_file", file=file[-200:], cause=_cause(error)) from None
    if len(content) > limit:
        raise InvalidInput("sandbox_file_large", file=file[-200:], limit=limit)
    return content


def _cause(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else type(error).__name__


def parse_input(text: str) -> dict[str, Any]:
    """The input of a script. Raises ``InvalidInput('sandbox_input')``."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("sandbox_input", field="input", limit=MAX_INPUT_BYTES) from None
    if not isinstance(found, dict) or len(text) > MAX_INPUT_BYTES:
        raise InvalidInput("sandbox_input", field="input", limit=MAX_INPUT_BYTES)
    return found
