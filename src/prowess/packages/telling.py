"""What a check found, as it is kept with the install and as it is told to whoever adds a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from prowess.errors import Conflict, ProwessError, SkillFileError
from prowess.packages.deciding import Decision
from prowess.packages.entry import Incoming
from prowess.packages.model import Install, InstallState
from prowess.packages.proving import Proof
from prowess.packages.store import report_text
from prowess.validation.report import Issue


def checked_values(proof: Proof, incoming: Incoming | None, decision: Decision | None) -> dict[str, Any]:
    """The columns of an install that checking fills."""
    issues = proof.report.issues + (() if decision is None else decision.findings)
    report = proof.report.to_json() | {"issues": [_kept(issue) for issue in issues]}
    values: dict[str, Any] = {"report": report_text(report)}
    if incoming is not None:
        values["digest"] = incoming.skill.digest
    if decision is not None:
        values |= {
            "trust": str(decision.trust),
            "signer": decision.signer,
            "permission_level": decision.level,
            "changes": report_text(decision.changes.to_json()),
        }
    return values


def _kept(issue: Issue) -> dict[str, Any]:
    """An issue with the fields of its sentences, so that it can be told in any language later."""
    detail = {name: value if _plain(value) else str(value) for name, value in issue.detail.items()}
    return issue.to_json() | {"detail": detail}


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, str | int | float)


def why_not(install: Install, issues: Sequence[Issue], error: ProwessError | None) -> ProwessError:
    """The error that says why an added folder does not serve."""
    if install.state is InstallState.AWAITING_APPROVAL:
        new = [] if install.changes is None else [" ".join(item) for item in install.changes.wider]
        return Conflict("install_waits", install=install.id, skill=install.skill, reason=install.reason, new=new)
    if error is not None:
        return error
    faults = [issue for issue in issues if issue.severity == "error"]
    if not faults:
        return Conflict("install_decided", install=install.id, state=str(install.state))
    first = faults[0]
    more = {"faults": len(faults)} if len(faults) > 1 else {}
    file = os.path.join(install.source, first.file)  # noqa: PTH118 - the name may be one that no path can hold
    return SkillFileError(first.code, file=file, line=first.line, install=install.id, **{**first.detail, **more})
