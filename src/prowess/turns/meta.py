"""The meta tools: load a skill's manual or a file of it, and choose which tool groups are equipped (T11).

They are system tools, always there; what they list, load and change is cut to the call's surface. A skill or group that
is not granted and one that does not exist are answered by the same words (G8).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection

from prowess.access.capabilities import LOAD_SKILL, RESET_TOOLS, CallSurface
from prowess.access.surface import GroupId
from prowess.events.log import EventLog, Transaction
from prowess.kernel.ids import IdSource
from prowess.messages import render
from prowess.skills.catalog import is_installed
from prowess.skills.staging.service import SkillFolder
from prowess.skills.store import StoredFile, skill_file_rows
from prowess.turns.emitting import emit_call
from prowess.turns.equipment import find_equipped, store_equipped
from prowess.turns.outcome import ToolOutcome
from prowess.turns.request import PlanTool, TurnRequest
from prowess.turns.view import Entry, TurnView

MANUAL = "SKILL.md"
MAX_CONTENT = 100_000
"""characters of a file that one load returns; a longer one is cut, and says so"""
MAX_LISTED = 200


class LoadArguments(BaseModel):
    """Arguments of ``load_skill_through_path``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    skill_id: str = Field(min_length=1, max_length=256)
    path: str = Field(default=MANUAL, min_length=1, max_length=1_024)


class ResetArguments(BaseModel):
    """Arguments of ``reset_equipped_tools``: the final list."""

    model_config = ConfigDict(extra="forbid", strict=True)

    groups: list[str] = Field(max_length=1_000)


class LoadedFile(BaseModel):
    """What was loaded."""

    skill_id: str
    path: str
    content: str
    cut: bool = False
    """whether the file goes on"""
    equipped: list[str] = []
    """the tool groups that are active now"""


class EquippedTools(BaseModel):
    """What is equipped after the call."""

    equipped: list[str]
    tools: list[str]


class Refusal(NamedTuple):
    """Why a meta tool did nothing; ``fields`` are for the sentence."""

    code: Literal["invalid_input", "not_found", "path_not_found", "not_text"]
    fields: Mapping[str, Any] = {}


class MetaTools:
    """Runs the two meta tools."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids

    def call(self, request: TurnRequest, view: TurnView, tool: str, arguments: Any, language: str) -> ToolOutcome:
        """One call. Refusals are outcomes; each call is an event."""
        call_id = self._ids.new("call")
        with self._log.transaction(request.tenant) as transaction:
            done = _load if tool == LOAD_SKILL else _reset
            result = done(transaction, request, view, arguments)
            if isinstance(result, Refusal):
                noted = {"tool": tool, "reason": result.code}
                emit_call(transaction, "tool.refused", request, call_id, decision="denied", **noted)
                return _refused(call_id, tool, result, language, tuple(transaction.emitted))
            emit_call(transaction, _EVENTS[tool], request, call_id, decision="succeeded", tool=tool, **_noted(result))
        return ToolOutcome(call_id, tool, "succeeded", output=result, events=tuple(transaction.emitted))


_EVENTS = {LOAD_SKILL: "skill.loaded", RESET_TOOLS: "tools.equipped"}


def meta_tools(view: TurnView, language: str) -> tuple[PlanTool, ...]:
    """The two tools as a model sees them; the groups that it may name are those of its surface."""
    groups = [str(group) for group in view.surface(None).manageable_groups()]
    items: dict[str, Any] = {"type": "string"} | ({"enum": groups} if groups else {})
    load = {
        "type": "object",
        "properties": {"skill_id": {"type": "string"}, "path": {"type": "string", "default": MANUAL}},
        "required": ["skill_id"],
        "additionalProperties": False,
    }
    reset = {
        "type": "object",
        "properties": {"groups": {"type": "array", "items": items}},
        "required": ["groups"],
        "additionalProperties": False,
    }
    return (
        PlanTool(LOAD_SKILL, None, render("meta.load", language), load),
        PlanTool(RESET_TOOLS, None, render("meta.reset", language), reset),
    )


def skill_folder(connection: Connection, tenant: str, entry: Entry) -> SkillFolder:
    """The files of a skill as a model can load them, the manual first; for staging."""
    manual = _manual(entry).encode()
    files = {MANUAL: StoredFile(MANUAL, False, sha256(manual).hexdigest(), manual), **_files(connection, tenant, entry)}
    return SkillFolder(entry.manifest.id, tuple(files.values()))


def _load(transaction: Transaction, request: TurnRequest, view: TurnView, arguments: Any) -> LoadedFile | Refusal:
    try:
        asked = LoadArguments.model_validate(arguments)
    except ValidationError:
        return Refusal("invalid_input")
    if not asked.skill_id.strip() or not asked.path.strip():
        return Refusal("invalid_input")
    entry = view.entry(asked.skill_id, request.scope)
    if entry is None:
        return Refusal("not_found", {"name": asked.skill_id})
    files = _files(transaction.connection, request.tenant, entry)
    if asked.path != MANUAL and asked.path not in files:
        listed = [MANUAL, *sorted(path for path in files if path != MANUAL)][:MAX_LISTED]
        return Refusal("path_not_found", {"available": listed})
    content = _manual(entry) if asked.path == MANUAL else _text(files[asked.path])
    if content is None:
        return Refusal("not_text")
    stored = find_equipped(transaction.connection, request)
    surface = view.surface(stored)
    wanted = surface.equipped | view.capabilities.activated_by(entry.manifest.id)
    if wanted != surface.equipped:
        store_equipped(transaction.connection, request, wanted, transaction.now_ms)
    return LoadedFile(
        skill_id=entry.manifest.id,
        path=asked.path,
        content=content[:MAX_CONTENT],
        cut=len(content) > MAX_CONTENT,
        equipped=_active(view.surface(wanted)),
    )


def _reset(transaction: Transaction, request: TurnRequest, view: TurnView, arguments: Any) -> EquippedTools | Refusal:
    try:
        asked = ResetArguments.model_validate(arguments)
    except ValidationError:
        return Refusal("invalid_input")
    surface = view.surface(find_equipped(transaction.connection, request))
    manageable = set(surface.manageable_groups())
    wanted = {GroupId.parse(name) for name in asked.groups}
    for name in asked.groups:
        if GroupId.parse(name) not in manageable:  # unknown, ungranted and unmanageable alike
            return Refusal("not_found", {"name": name})
    # Only what this call may manage changes: what it does not see stays as it was asked for.
    equipped = (surface.equipped - manageable) | wanted
    store_equipped(transaction.connection, request, equipped, transaction.now_ms)
    after = view.surface(frozenset(equipped))
    return EquippedTools(equipped=_active(after), tools=list(after.tools()))


def _files(connection: Connection, tenant: str, entry: Entry) -> dict[str, StoredFile]:
    if not is_installed(entry.source):
        return {}
    rows = skill_file_rows(connection, tenant, entry.manifest.id, entry.manifest.version)
    return {file.path: file for file in rows}


def _manual(entry: Entry) -> str:
    body = getattr(entry.definition, "body", "")
    return str(body).strip() or entry.manifest.description


def _text(file: StoredFile) -> str | None:
    try:
        return file.content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _active(surface: CallSurface) -> list[str]:
    return sorted(map(str, surface.active_groups()))


def _noted(result: LoadedFile | EquippedTools) -> dict[str, Any]:
    if isinstance(result, LoadedFile):
        return {"loaded": result.skill_id, "path": result.path}
    return {"equipped": result.equipped}


def _refused(call_id: str, tool: str, refusal: Refusal, language: str, events: tuple[str, ...]) -> ToolOutcome:
    """The answer names nothing but what was asked, so that absent and ungranted read alike (ruling 12.24)."""
    status: Literal["invalid_input", "not_found", "failed"] = "failed"
    if refusal.code in ("invalid_input", "not_found"):
        status = "invalid_input" if refusal.code == "invalid_input" else "not_found"
    message = render(f"meta.{refusal.code}", language, refusal.fields)
    return ToolOutcome(call_id, tool, status, error_code=refusal.code, message=message, events=events)
