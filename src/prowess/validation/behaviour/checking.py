"""Level 2 of one skill: every case and boundary in the sandbox, within bounded time (V2).

Nothing of the machine is given to a script under test: no declared files, no hosts; what it needs of them is said to be
unproven, never passed. Where the machine cannot isolate, nothing runs and the level fails.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from prowess.errors import InvalidInput, SkillFileError
from prowess.sandbox.model import Isolation, SandboxJob, SandboxLimits, SandboxProfile, SandboxResult, ScriptFile
from prowess.sandbox.ports import Sandbox
from prowess.sandbox.profile import compile_profile
from prowess.skills.manifest import SkillManifest
from prowess.skills.parameters import same_value
from prowess.skills.scripts import ScriptTool, script_tool
from prowess.skills.skill_md import LoadedSkill
from prowess.turns.scripts.schemas import input_model
from prowess.validation.behaviour.cases import CASES, Case, boundary_of, read_cases
from prowess.validation.behaviour.judging import Subject, judge
from prowess.validation.behaviour.replay import ReplayHost
from prowess.validation.report import CaseResult, Issue, LevelResult, Report

LIMITS = SandboxLimits(wall_ms=10_000, memory_mb=200)
MAX_SECONDS = 120.0
"""of all runs of a skill"""
_WORKERS = max(1, min(4, os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class _Outcome:
    case: Case
    issues: list[Issue]
    result: SandboxResult | None = None
    """null: the schema kept it from the script, or nothing was run"""


def check_behaviour(skill: LoadedSkill, sandbox: Callable[[], Sandbox], folder: str | None = None) -> Report:
    """The report of level 2. ``sandbox`` is asked only for a skill that has something to prove. Raises nothing.

    ``folder``: how files are named in issues; default: the skill's own path.
    """
    started = time.perf_counter()
    folder = folder or str(skill.path)
    script = script_tool(skill.manifest, [file.path for file in skill.files])
    if script is None:
        return Report(folder, skill.manifest.id, {"behavior": LevelResult("pass", 0, 0.0)}, ())
    outcomes, issues = _Check(skill, script, folder).run(sandbox)
    for outcome in outcomes:
        issues.extend(outcome.issues)
    cases = tuple(_case_result(outcome) for outcome in outcomes)
    rank = {"error": 0, "warning": 1, "info": 2}
    ordered = tuple(sorted(issues, key=lambda issue: (rank[issue.severity], issue.file, issue.line)))
    failed = any(issue.severity == "error" for issue in ordered)
    unproven = any(issue.code == "behavior_unproven" for issue in ordered)
    verdict = LevelResult(
        "reject" if failed else "review" if unproven else "pass",
        len(cases),
        (time.perf_counter() - started) * 1000,
        cases,
    )
    return Report(folder, skill.manifest.id, {"behavior": verdict}, ordered)


class _Check:
    """One skill under test."""

    def __init__(self, skill: LoadedSkill, script: ScriptTool, folder: str) -> None:
        self._skill = skill
        self._script = script
        self._subject = Subject(skill.manifest, script.spec, script.path, folder)
        self._input = input_model(skill.manifest.id, script.spec.parameters)
        self._ends = time.monotonic() + MAX_SECONDS
        self._files: tuple[ScriptFile, ...] = ()
        self._profile = SandboxProfile()

    def run(self, sandbox: Callable[[], Sandbox]) -> tuple[list[_Outcome], list[Issue]]:
        """What came of each case, and what kept cases from being run."""
        try:
            self._files = tuple(ScriptFile(file.path, file.read(), file.executable) for file in self._skill.files)
            self._profile = profile_under_test(self._skill.manifest)
        except (InvalidInput, SkillFileError) as error:
            return [], [Issue("behavior", "error", error.code, self._place("prowess.yaml"), 1, error.detail)]
        found = next((file.content for file in self._files if file.path == CASES), b"")
        written, issues = read_cases(found, self._place(CASES))
        runner = sandbox()
        if runner.isolation is Isolation.NONE:
            code = Issue("behavior", "error", "behavior_refused", self._place(self._script.path), 1, {"case": "*"})
            return [], [*issues, code]
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="behaviour") as pool:
            cases = [*written, *boundary_of(self._script.spec.parameters)]
            return list(pool.map(lambda case: self._one(runner, case), cases)), issues

    def _one(self, sandbox: Sandbox, case: Case) -> _Outcome:
        if time.monotonic() > self._ends:
            return _Outcome(case, [self._subject.issue("behavior_unfinished", case, limit=round(MAX_SECONDS))])
        params = self._settled(case)
        if params is None:
            kept = case.error == "invalid_input" or (case.boundary and not case.valid)
            return _Outcome(case, [] if kept else [self._subject.issue("behavior_params", case)])
        if case.error == "invalid_input" or not case.valid:
            return _Outcome(case, [self._subject.issue("behavior_no_error", case, error="invalid_input")])
        host, result = self._run(sandbox, case, params)
        issues = judge(self._subject, case, host, result)
        if not issues and result.ok and not case.boundary:
            issues = self._again(sandbox, case, params, result)
        if len(result.stdout.encode()) >= self._profile.limits.output_bytes:
            issues = [*issues, self._subject.issue("behavior_prints", case, "warning")]
        if result.status.value == "timeout" and case.boundary:
            self._ends = 0.0  # the others would take as long, one by one
        return _Outcome(case, issues, result)

    def _again(self, sandbox: Sandbox, case: Case, params: dict[str, object], first: SandboxResult) -> list[Issue]:
        """The same once more: a script whose output differs each time cannot be held to one."""
        _, second = self._run(sandbox, case, params)
        if second.ok and same_value(first.output, second.output):
            return []
        return [self._subject.issue("behavior_flaky", case, "warning")]

    def _run(self, sandbox: Sandbox, case: Case, params: dict[str, object]) -> tuple[ReplayHost, SandboxResult]:
        host = ReplayHost(self._skill.manifest, case.calls)
        job = SandboxJob(self._files, self._script.path, self._script.entry, params, self._profile)
        return host, sandbox.run(job, host)

    def _settled(self, case: Case) -> dict[str, object] | None:
        """The arguments as the script gets them; null where the schema refuses them."""
        try:
            settled: dict[str, object] = self._input.model_validate(dict(case.params)).model_dump(mode="json")
        except Exception:
            return None
        return settled

    def _place(self, path: str) -> str:
        return self._subject.place(path)


def profile_under_test(manifest: SkillManifest) -> SandboxProfile:
    """What a script may touch while it is tried: nothing of the machine. Raises ``InvalidInput`` as the profile."""
    declared = compile_profile(manifest.permissions, manifest.constraints)
    limits = declared.limits
    bounded = replace(
        limits, wall_ms=min(limits.wall_ms, LIMITS.wall_ms), memory_mb=min(limits.memory_mb, LIMITS.memory_mb)
    )
    return replace(declared, read=(), write=(), delete=(), hosts=(), limits=bounded)


def _case_result(outcome: _Outcome) -> CaseResult:
    passed = all(issue.severity == "warning" for issue in outcome.issues)
    result = outcome.result
    if result is None:
        return CaseResult(outcome.case.name, passed, 0.0, 0.0)
    return CaseResult(outcome.case.name, passed, result.duration_ms, result.peak_mb)
