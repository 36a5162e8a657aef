"""Where webhooks may go: an allowlist of hosts, and an address that was looked at before it is spoken to (B15)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from prowess.errors import Denied, InvalidInput
from prowess.kernel.addresses import Address, is_public

MAX_URL = 2_000
"""Characters of a webhook's URL."""
MAX_HOSTS = 1_000
HTTPS_PORT = 443

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*(?=[a-z0-9_-]*[a-z_]){_LABEL}")
"""A host name. Its last label is no number, or it might be an address in another writing (127.1, 0x7f.1)."""
_HOST_AND_PORT = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:]+))(?::([0-9]{1,5}))?")
_SHOWN = 80


class Endpoint(NamedTuple):
    """A host, in lower case and without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """``host:port``, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HookUrl(NamedTuple):
    """A URL that was read; ``path`` includes the query."""

    scheme: str
    endpoint: Endpoint
    path: str


@dataclass(frozen=True, slots=True)
class Allowlist:
    """Which hosts may be spoken to; empty: none."""

    endpoints: frozenset[Endpoint] = frozenset()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Allowlist:
        """``entries``: ``host`` (port 443) or ``host:port``, at most 1,000; an IPv6 address in brackets.

        Raises ``InvalidInput('bad_outgoing_host')`` naming the entry.
        """
        if isinstance(entries, str):  # a string is an iterable of strings too
            raise InvalidInput("wrong_type", field="outgoing_hosts", expected="list of strings", got="str")
        listed = list(entries)
        if len(listed) > MAX_HOSTS:
            raise InvalidInput("too_many_outgoing_hosts", field="outgoing_hosts", limit=MAX_HOSTS, count=len(listed))
        return cls(frozenset(map(_entry, listed)))

    def check(self, url: HookUrl) -> None:
        """Whether a URL may be used at all, before any lookup.

        Raises ``Denied('host_not_allowed')`` for a host that is not listed, and ``Denied('https_required')`` for plain
        HTTP to any but a listed loopback address.
        """
        if url.endpoint not in self.endpoints:
            raise Denied("host_not_allowed", field="url", host=str(url.endpoint))
        address = _literal(url.endpoint.host)
        if url.scheme != "https" and not (address is not None and address.is_loopback):
            raise Denied("https_required", field="url", host=str(url.endpoint))

    def choose(self, endpoint: Endpoint, found: Sequence[str]) -> str:
        """The address to connect to, of those that a lookup of ``endpoint`` found.

        One that is not public must be listed itself, with this port. A single other one refuses all: an answer that
        mixes them is no honest one. Raises ``Denied('address_not_allowed')``.
        """
        for text in found:
            address = _literal(text.partition("%")[0])
            if address is None or "%" in text or not self._open(address, endpoint.port):
                raise Denied("address_not_allowed", field="url", host=str(endpoint), address=text[:_SHOWN])
        if not found:
            raise Denied("address_not_allowed", field="url", host=str(endpoint), address="")
        return found[0]

    def _open(self, address: Address, port: int) -> bool:
        return is_public(address) or Endpoint(str(address), port) in self.endpoints


def read_url(url: object) -> HookUrl:
    """Take a URL of a webhook apart: ``http`` or ``https``, no user or password, no fragment, at most 2,000 characters.

    Raises ``InvalidInput('bad_hook_url')``, whose ``why`` is ``type``, ``length``, ``characters``, ``scheme``,
    ``userinfo``, ``fragment``, ``host`` or ``port``. The URL is not repeated: it may hold a secret.
    """
    if not isinstance(url, str):
        raise _bad("type")
    if not 0 < len(url) <= MAX_URL:
        raise _bad("length")
    if not url.isascii() or not url.isprintable() or any(character in url for character in ' "<>\\^`{|}'):
        raise _bad("characters")
    parts = _split(url)
    if parts.scheme not in ("http", "https"):
        raise _bad("scheme")
    if "@" in parts.netloc:
        raise _bad("userinfo")
    if "#" in url:
        raise _bad("fragment")
    endpoint = _endpoint(parts.netloc, HTTPS_PORT if parts.scheme == "https" else 80)
    return HookUrl(parts.scheme, endpoint, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


def _bad(why: str) -> InvalidInput:
    return InvalidInput("bad_hook_url", field="url", why=why)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise _bad("host") from None


def _endpoint(text: str, default_port: int) -> Endpoint:
    """``host``, ``host:port`` or the same with ``[IPv6]``. Raises ``InvalidInput('bad_hook_url')``."""
    found = _HOST_AND_PORT.fullmatch(text.lower())
    if found is None:
        raise _bad("host")
    bracketed, plain, digits = found.groups()
    host = _host(bracketed, IPv6Address) if bracketed is not None else _host(plain, IPv4Address)
    port = default_port if digits is None else int(digits)
    if not 0 < port < 65_536:
        raise _bad("port")
    return Endpoint(host, port)


def _host(text: str, kind: type[Address]) -> str:
    address = _literal(text)
    if isinstance(address, kind) and "%" not in text:
        return str(address)
    if kind is IPv6Address or not _NAME.fullmatch(text):
        raise _bad("host")
    return text


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _entry(entry: object) -> Endpoint:
    if isinstance(entry, str) and len(entry) <= MAX_URL:
        try:
            return _endpoint(entry, HTTPS_PORT)
        except InvalidInput:
            pass
    raise InvalidInput("bad_outgoing_host", field="outgoing_hosts", entry=str(entry)[:_SHOWN])
