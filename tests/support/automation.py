"""Triggers that many tests share."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tests.support.kit import AGENT, USER, rows

from prowess import Prowess
from prowess.automation.triggers.model import Fire, Trigger


def at(text: str) -> datetime:
    """``2026-03-01 08:00`` as an instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def add(app: Prowess, kind: str, spec: dict[str, Any], **fields: Any) -> Trigger:
    """A trigger of the usual user."""
    asked: dict[str, Any] = {"name": "mine", "agent": AGENT, "prompt": "Tell me.", "kind": kind, "spec": spec}
    user = fields.pop("user", USER)
    tenant = fields.pop("tenant", "default")
    return app.add_automation(user=user, tenant=tenant, **{**asked, **fields})


def jobs(url: str, trigger: str | None = None) -> list[dict[str, Any]]:
    """The jobs that triggers made, in the order of their slots, with their payloads read."""
    found = rows(url, "SELECT * FROM skill_background_jobs WHERE trigger_id IS NOT NULL ORDER BY trigger_id, slot, id")
    return [row | {"payload": json.loads(row["payload"])} for row in found if trigger in (None, row["trigger_id"])]


def history(app: Prowess, trigger: Trigger) -> list[tuple[str, str | None, int]]:
    """(status, planned time as HH:MM:SS, missed) of its fires, oldest first."""
    return [_shown(fire) for fire in reversed(app.automation_history(trigger.id))]


def _shown(fire: Fire) -> tuple[str, str | None, int]:
    return str(fire.status), None if fire.planned is None else f"{fire.planned:%H:%M:%S}", fire.missed


def events(app: Prowess, kind: str) -> list[dict[str, Any]]:
    """Data of the events of one type, oldest first."""
    return [dict(event.data) for event in app.events() if event.type == kind]
