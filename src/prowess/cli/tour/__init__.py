"""The tour: the whole story on a throw-away database, each step proven by what was stored, without a network."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prowess.cli.output import dim, language, print_json, say, show, visible
from prowess.cli.tour import hiding, installing, talking, working
from prowess.cli.tour.story import Tour, Unexpected, expect
from prowess.errors import ProwessError

__all__ = ["STEPS", "Tour", "Unexpected", "expect", "run_tour"]

STEPS: tuple[tuple[str, Callable[[Tour], str]], ...] = (
    ("plan-goal", talking.plan_goal),
    ("resume-after-restart", talking.resume_after_restart),
    ("recall-denied", talking.recall_denied),
    ("recall-granted", talking.recall_granted),
    ("recall-revoked", talking.recall_revoked),
    ("hidden-skill", hiding.hidden_skill),
    ("reminder-delivered", working.reminder_delivered),
    ("reminder-cancelled", working.reminder_cancelled),
    ("reminder-revoked", working.reminder_revoked),
    ("approval-once", working.approval_once),
    ("automation-session", working.automation_session),
    ("unsafe-skill-rejected", installing.unsafe_skill_rejected),
    ("audit-verified", working.audit_verified),
)


def run_tour(*, as_json: bool) -> bool:
    """Run every step, also after one failed; true where all showed what they must."""
    started = time.perf_counter()
    steps: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="prowess-tour-") as folder:
        tour = Tour(f"sqlite:///{Path(folder) / 'tour.db'}", Path(folder), _silent if as_json else _narrate)
        for name, step in STEPS:
            if not as_json:
                _heading(name)
            shown = _run_step(tour, name, step)
            steps.append(shown)
            if not as_json:
                _evidence(shown)
    ok = all(step["ok"] for step in steps)
    duration_ms = round((time.perf_counter() - started) * 1000)
    if as_json:
        print_json({"ok": ok, "steps": steps, "duration_ms": duration_ms})
    else:
        done = sum(step["ok"] for step in steps)
        show("\n" + say("tour.end", done=done, total=len(steps), seconds=f"{duration_ms / 1000:.1f}"))
    return ok


def _run_step(tour: Tour, name: str, step: Callable[[Tour], str]) -> dict[str, Any]:
    try:
        return {"name": name, "ok": True, "shows": step(tour)}
    except Unexpected as difference:
        return {"name": name, "ok": False, "shows": str(difference)}
    except ProwessError as error:
        return {"name": name, "ok": False, "shows": f"{error.code}: {error.message(language())}"}
    except Exception as error:
        return {"name": name, "ok": False, "shows": f"{type(error).__name__}: {error}"}


def _silent(_who: str, _text: str) -> None:
    return None


def _narrate(who: str, text: str) -> None:
    if not who:
        print(dim(f"      ·  {visible(text)}"))
        return
    first, *rest = visible(text).splitlines() or [""]
    print(f"  {who:>5}  {first}")
    for line in rest:
        print(f"         {line}")


def _heading(name: str) -> None:
    show(f"\n── {name}{say('colon')}{say(f'tour.title.{name}')}")


def _evidence(step: dict[str, Any]) -> None:
    show(f"  {'✓' if step['ok'] else '✗'} {step['shows']}")
