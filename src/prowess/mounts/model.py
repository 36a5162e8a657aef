"""Mounts, their tools, and what an operator decided about them. No I/O (X7, ruling 12.21)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from prowess.access.model import CODE_PATTERN, Risk
from prowess.automation.notifications.addresses import read_url
from prowess.errors import InvalidInput
from prowess.kernel.clock import iso
from prowess.secrets.model import SecretSlot

MAX_SERVER = 40
"""characters of a server's name"""
MAX_PARTS = 64
"""words of a command, names of an environment, secrets"""
MAX_PART = 4_000
"""characters of one of them"""
MIN_CALL_MS, MAX_CALL_MS = 100, 30_000
MIN_START_MS, MAX_START_MS = 100, 60_000

_SERVER = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_RESERVED_HEADERS = frozenset(
    "accept connection content-length content-type host last-event-id transfer-encoding upgrade".split()
)


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A secret that a server is given: as an environment variable of its process, or as a header of each request."""

    name: str
    """of the variable or header"""
    slot: str
    owner: Literal["user", "tenant"] = "tenant"
    """``user``: the caller's own, and then each user has a connection of their own (U2, U4)"""
    prefix: str = ""
    """before the value, such as ``"Bearer "``"""

    def to_json(self) -> dict[str, str]:
        """As it is stored."""
        return {"name": self.name, "slot": self.slot, "owner": self.owner, "prefix": self.prefix}


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSpec:
    """How a server is reached. Exactly one of ``command`` and ``url`` is given."""

    server: str
    """1 to 40 of a–z, 0–9 and single inner hyphens"""
    command: tuple[str, ...] = ()
    """the words of a command that speaks MCP on its standard input and output; it runs with Prowess' own rights"""
    url: str | None = None
    """of a server that speaks MCP over streamable HTTP; its host must be allowed"""
    environment: tuple[str, ...] = ()
    """names of variables that the command gets from Prowess' own environment, beside PATH, HOME and LANG"""
    secrets: tuple[SecretUse, ...] = ()
    call_ms: int = 20_000
    """how long one call may take"""
    start_ms: int = 15_000
    """how long the server may take until it has listed its tools"""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """How it is spoken to."""
        return "http" if self.url is not None else "stdio"

    @property
    def per_user(self) -> bool:
        """Whether it is given a credential of the caller's own."""
        return any(secret.owner == "user" for secret in self.secrets)

    @property
    def slots(self) -> tuple[SecretSlot, ...]:
        """The slots that must be filled for a call."""
        return tuple({secret.slot: SecretSlot(secret.slot, secret.owner) for secret in self.secrets}.values())

    def to_json(self) -> dict[str, Any]:
        """As it is stored and shown; it holds names of secrets, never one."""
        return {
            "server": self.server,
            "command": list(self.command),
            "url": self.url,
            "environment": list(self.environment),
            "secrets": [secret.to_json() for secret in self.secrets],
            "call_ms": self.call_ms,
            "start_ms": self.start_ms,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MountSpec:
        """What ``to_json`` made."""
        secrets = tuple(SecretUse(**secret) for secret in value["secrets"])
        lists = {"command": tuple(value["command"]), "environment": tuple(value["environment"])}
        return cls(**{**value, **lists, "secrets": secrets})


def check_server(server: object) -> str:
    """Raises ``InvalidInput('bad_mount_name')`` for what cannot name a server."""
    if not isinstance(server, str) or len(server) > MAX_SERVER or not _SERVER.fullmatch(server):
        raise InvalidInput("bad_mount_name", field="server", limit=MAX_SERVER)
    return server


def check_spec(spec: MountSpec) -> None:
    """Whether a server can be reached like this; its address is checked against the allowlist elsewhere.

    Raises ``InvalidInput``: ``bad_mount_name``, ``bad_mount`` naming the field, ``bad_secret_name``, ``bad_hook_url``.
    """
    check_server(spec.server)
    if bool(spec.command) == (spec.url is not None):
        raise _bad("command")
    if spec.url is not None:
        read_url(spec.url)
        if spec.environment:
            raise _bad("environment")
    if len(spec.command) > MAX_PARTS or not all(map(_is_word, spec.command)) or (spec.command and not spec.command[0]):
        raise _bad("command")
    if len(spec.environment) > MAX_PARTS or not all(map(_ENVIRONMENT.fullmatch, spec.environment)):
        raise _bad("environment")
    _check_secrets(spec)
    if type(spec.call_ms) is not int or not MIN_CALL_MS <= spec.call_ms <= MAX_CALL_MS:
        raise _bad("call_ms")
    if type(spec.start_ms) is not int or not MIN_START_MS <= spec.start_ms <= MAX_START_MS:
        raise _bad("start_ms")


def _check_secrets(spec: MountSpec) -> None:
    names, owners = set(), dict[str, str]()
    if len(spec.secrets) > MAX_PARTS:
        raise _bad("secrets")
    for secret in spec.secrets:
        SecretSlot(secret.slot, secret.owner)
        http = spec.url is not None
        named = _HEADER.fullmatch(secret.name) if http else _ENVIRONMENT.fullmatch(secret.name)
        reserved = http and (secret.name.lower() in _RESERVED_HEADERS or secret.name.lower().startswith("mcp-"))
        plain = secret.prefix.isascii() and (secret.prefix.isprintable()) and len(secret.prefix) <= MAX_PARTS
        if secret.owner not in ("user", "tenant") or named is None or reserved or not plain:
            raise _bad("secrets")
        if secret.name.lower() in names or owners.setdefault(secret.slot, secret.owner) != secret.owner:
            raise _bad("secrets")
        names.add(secret.name.lower())


def _is_word(word: object) -> bool:
    return isinstance(word, str) and len(word) <= MAX_PART and "\0" not in word


def _bad(field: str) -> InvalidInput:
    return InvalidInput("bad_mount", field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mounted server."""

    tenant: str
    spec: MountSpec
    revision: int
    """grows when how it is reached changes: connections of before serve no more"""
    added_by: str
    added_at: datetime
    listed_at: datetime | None = None
    """when its tools were last listed"""
    error: str | None = None
    """why they could not be, the last time it was tried"""

    @property
    def server(self) -> str:
        """Its name."""
        return self.spec.server


@dataclass(frozen=True, slots=True)
class ToolListing:
    """A tool as its server lists it: untrusted, cut to size, and without characters that nobody sees.

    ``digest`` is of what the server sent, before any of that (RFC 8785 over name, title, description, both schemas and
    annotations): whatever changes, changes it.
    """

    name: str
    digest: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict)
    """of ``readOnlyHint``, ``destructiveHint`` and ``openWorldHint`` those that were given: hints, not facts"""
    notes: tuple[str, ...] = ()
    """what was found and mended: ``hidden_characters``, ``description_cut``"""
    fault: str | None = None
    """why it cannot be used at all: ``name``, ``schema``, ``hidden_in_schema``, ``too_large``, ``twice``"""

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "name": self.name,
            "digest": self.digest,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "annotations": dict(self.annotations),
            "notes": list(self.notes),
            "fault": self.fault,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ToolListing:
        """What ``to_json`` made."""
        return cls(**{**value, "notes": tuple(value["notes"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What the operator says of one tool in place of its hints. Null: the hints stand."""

    risk: Risk | None = None
    effect: Literal["read", "write"] | None = None
    destructive: bool | None = None
    network: bool | None = None
    """whether it reaches the world outside: it then needs ``network:host`` too"""
    ask: bool | None = None
    """whether each call is asked for; one of L3 or L4 always is"""
    code: str | None = None
    """the permission code in place of the one that the server's name makes"""
    hidden: bool | None = None
    """not offered and not callable, whatever was approved"""

    def to_json(self) -> dict[str, Any]:
        """What is said, as it is stored and shown."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Override:
        """What ``to_json`` made. Raises ``InvalidInput('bad_override')`` naming the field."""
        unknown = next((name for name in value if name not in cls.__slots__), None)
        if unknown is not None:
            raise InvalidInput("bad_override", field=unknown[:80])
        fields = dict(value)
        for name in ("destructive", "network", "ask", "hidden"):
            if not isinstance(fields.get(name), bool | None):
                raise InvalidInput("bad_override", field=name)
        if fields.get("effect") not in (None, "read", "write"):
            raise InvalidInput("bad_override", field="effect")
        if fields.get("risk") is not None:
            if fields["risk"] not in tuple(Risk) or fields["risk"] == Risk.L0:
                raise InvalidInput("bad_override", field="risk")
            fields["risk"] = Risk(fields["risk"])
        code = fields.get("code")
        if code is not None and (not isinstance(code, str) or len(code) > 128 or not CODE_PATTERN.fullmatch(code)):
            raise InvalidInput("bad_override", field="code")
        return cls(**fields)

    def merged(self, changes: Override) -> Override:
        """This with what ``changes`` says put over it."""
        return replace(self, **changes.to_json())


NO_OVERRIDE = Override()


class ToolState(StrEnum):
    """What can be done with a tool. Only an approved one is offered, and only it can be called."""

    PENDING = "pending"
    """nobody has approved it yet"""
    APPROVED = "approved"
    CHANGED = "changed"
    """it is not what was approved: it waits to be approved again"""
    GONE = "gone"
    """its server does not list it any more"""
    HIDDEN = "hidden"
    """the operator keeps it away"""
    UNUSABLE = "unusable"
    """its listing cannot be used"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedTool:
    """One tool of a server: as it is listed, as it was approved, and what the operator said of it."""

    tenant: str
    server: str
    listed: ToolListing
    gone: bool = False
    pinned: ToolListing | None = None
    """what was approved; a model is shown this and nothing else"""
    override: Override = NO_OVERRIDE
    revision: int = 0
    """grows with every approval and override: approvals of calls are bound to it (G13)"""
    approved_by: str | None = None
    approved_at: datetime | None = None

    @property
    def id(self) -> str:
        """``server/tool``."""
        return f"{self.server}/{self.listed.name}"

    @property
    def state(self) -> ToolState:
        """See ``ToolState``; the first that applies, from what nobody can mend to what is well."""
        if self.gone:
            return ToolState.GONE
        if self.listed.fault is not None:
            return ToolState.UNUSABLE
        if self.override.hidden:
            return ToolState.HIDDEN
        if self.pinned is None:
            return ToolState.PENDING
        return ToolState.APPROVED if self.pinned.digest == self.listed.digest else ToolState.CHANGED


@dataclass(frozen=True, slots=True)
class MountView:
    """A mount with its tools, by name."""

    mount: Mount
    tools: tuple[MountedTool, ...]

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess mounts list``; tools in short."""
        mount = self.mount
        return {
            **mount.spec.to_json(),
            "transport": mount.spec.transport,
            "per_user": mount.spec.per_user,
            "revision": mount.revision,
            "added_by": mount.added_by,
            "added_at": iso(mount.added_at),
            "listed_at": iso(mount.listed_at),
            "error": mount.error,
            "tools": {str(state): sum(tool.state is state for tool in self.tools) for state in ToolState},
        }
