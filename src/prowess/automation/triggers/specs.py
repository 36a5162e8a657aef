"""What a trigger may be told: checked once at the edge, and again whenever a stored row is read (B2, B11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from prowess.access.model import CODE_PATTERN, Mode
from prowess.automation.triggers.model import DEFAULT_RATES, Kind, Misfire, RateLimit
from prowess.errors import InvalidInput, ProwessError
from prowess.kernel.ids import check_id
from prowess.kernel.names import is_skill_name, normalise_skill_name
from prowess.kernel.text import check_text
from prowess.secrets.model import check_name

MIN_INTERVAL_S, MAX_INTERVAL_S = 10, 365 * 86_400
MAX_PROMPT, MAX_NAME, MAX_CODES, MAX_SECRETS, MAX_PATH, MAX_EVENTS = 8_000, 120, 20, 4, 1_024, 20
REACTION_EVENTS = (
    "turn.completed",
    "turn.failed",
    "run.recorded",
    "session.completed",
    "session.cancelled",
    "session.expired",
    "session.failed",
    "automation.completed",
    "task.completed_by_peer",
)
"""What a reaction may wait for."""

M = TypeVar("M", bound=BaseModel)
Id = Annotated[str, Field(min_length=1, max_length=200)]


class Spec(BaseModel):
    """Of one kind of trigger. Frozen; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class OnceSpec(Spec):
    """One instant: ``at`` with its offset, or ``local`` in a zone (ruling 12.17)."""

    at: Annotated[str, Field(max_length=40)] | None = None
    local: Annotated[str, Field(max_length=40)] | None = None
    tz: Annotated[str, Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.at is None) == (self.local is None) or (self.local is None) != (self.tz is None):
            raise InvalidInput("once_time", field="at")
        return self


class CronSpec(Spec):
    """Five fields in a zone; read by ``cron_schedule``."""

    cron: Annotated[str, Field(max_length=256)]
    tz: Annotated[str, Field(max_length=64)] = "UTC"


class IntervalSpec(Spec):
    """Elapsed time, 10 seconds to 365 days."""

    seconds: Annotated[int, Field(ge=MIN_INTERVAL_S, le=MAX_INTERVAL_S, strict=True)]


class WebhookSpec(Spec):
    """Signed requests. ``secrets`` are names of the owner's slots: any of them verifies, so that they can rotate."""

    scheme: Literal["standard", "github"]
    secrets: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_SECRETS)]
    events: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=MAX_EVENTS)] = ()
    """of GitHub: the events that fire; none: all of them"""

    @field_validator("secrets")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(check_name, names))


class FileSpec(Spec):
    """A file or folder below one of the operator's roots."""

    path: Annotated[str, Field(min_length=1, max_length=MAX_PATH)]
    changes: Annotated[tuple[Literal["added", "modified", "deleted"], ...], Field(min_length=1, max_length=3)] = (
        "added",
        "modified",
        "deleted",
    )


class ReactionSpec(Spec):
    """Events of the owner's own turns, of these types and, where given, of this agent, conversation, skill."""

    events: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_EVENTS)]
    agent: Id | None = None
    conversation: Id | None = None
    skill: Id | None = None

    @field_validator("events")
    @classmethod
    def _known(cls, events: tuple[str, ...]) -> tuple[str, ...]:
        for event in events:
            if event not in REACTION_EVENTS:
                raise InvalidInput("unknown_event", field="events", event=event[:64], known=list(REACTION_EVENTS))
        return events

    @field_validator("skill")
    @classmethod
    def _canonical(cls, skill: str | None) -> str | None:
        return skill and skill_id(skill)


_SPECS: Mapping[Kind, type[Spec]] = {
    Kind.ONCE: OnceSpec,
    Kind.CRON: CronSpec,
    Kind.INTERVAL: IntervalSpec,
    Kind.WEBHOOK: WebhookSpec,
    Kind.FILE: FileSpec,
    Kind.REACTION: ReactionSpec,
}


class Rate(Spec):
    """At most ``fires`` within any ``seconds``."""

    fires: Annotated[int, Field(ge=1, le=10_000, strict=True)]
    seconds: Annotated[int, Field(ge=1, le=86_400, strict=True)]


class Draft(BaseModel):
    """A trigger as a person or agent asks for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    agent: str
    kind: Kind
    spec: Mapping[str, Any]
    skill: str | None = None
    prompt: str = ""
    conversation: str | None = None
    preapproved: Annotated[tuple[str, ...], Field(max_length=MAX_CODES)] = ()
    mode: Mode | None = None
    rate: Rate | None = None
    max_attempts: Annotated[int, Field(ge=1, le=10, strict=True)] = 3
    misfire: Misfire = Misfire.ONE
    misfire_bound: Annotated[int, Field(ge=1, le=100, strict=True)] = 10

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        return check_text(name, "name", limit=MAX_NAME)

    @field_validator("agent", "conversation")
    @classmethod
    def _ids(cls, value: str | None, info: Any) -> str | None:
        return None if value is None else check_id(value, info.field_name)

    @field_validator("skill")
    @classmethod
    def _canonical(cls, skill: str | None) -> str | None:
        return None if skill is None else skill_id(skill)

    @field_validator("preapproved")
    @classmethod
    def _codes(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        for code in codes:
            if not CODE_PATTERN.fullmatch(code):
                raise InvalidInput("bad_preapproval", field="preapproved", code=code[:80])
        return tuple(dict.fromkeys(codes))

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if self.skill is None or self.prompt:
            check_text(self.prompt, "prompt", limit=MAX_PROMPT)
        return self

    @property
    def limit(self) -> RateLimit:
        """The rate limit that was asked for, else that of the kind."""
        return DEFAULT_RATES[self.kind] if self.rate is None else RateLimit(self.rate.fires, self.rate.seconds)


def read_draft(fields: Mapping[str, Any]) -> Draft:
    """Check what was asked for, its spec included.

    Raises ``InvalidInput``: ``bad_trigger`` naming the field, or what the field's own rule raises (``once_time``,
    ``unknown_event``, ``bad_secret_name``, ``bad_preapproval``, ``text_empty``, ``bad_skill_name`` …).
    """
    draft = _validated(Draft, fields, "")
    spec = read_spec(draft.kind, draft.spec)
    return draft.model_copy(update={"spec": spec.model_dump(mode="json", exclude_none=True)})


def read_spec(kind: Kind, fields: Mapping[str, Any]) -> Spec:
    """The spec of one kind. Raises ``InvalidInput`` as ``read_draft``."""
    return _validated(_SPECS[kind], fields, "spec.")


def skill_id(name: str) -> str:
    """The canonical id of a skill in any spelling (ruling 12.1, C62). Raises ``InvalidInput('bad_skill_name')``."""
    found = normalise_skill_name(name)
    if not is_skill_name(found):
        raise InvalidInput("bad_skill_name", field="skill", skill=name[:80])
    return found


def _validated(model: type[M], fields: Mapping[str, Any], place: str) -> M:
    try:
        return model.model_validate(dict(fields))
    except ProwessError:
        raise
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = place + ".".join(map(str, first["loc"]))
        raise InvalidInput("bad_trigger", field=where or "trigger", why=first["msg"]) from None
    except (TypeError, ValueError):
        raise InvalidInput("bad_trigger", field=place or "trigger", why="unreadable") from None
