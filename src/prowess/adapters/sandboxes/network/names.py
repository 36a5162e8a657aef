"""Host names: those that a manifest declares, and those that a request asks for (S5, escape list 34).

A declared name is exact. It is compared in its ASCII form (RFC 5890, A-labels) and in lower case. A request must write
it so, since every other writing is another name for somebody: a dot at the end, Unicode dots, digits that are an
address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from prowess.errors import InvalidInput

MAX_HOSTS = 100
HTTPS_PORT = 443

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)+(?=[a-z0-9-]*[a-z]){_LABEL}", re.ASCII)
"""Two labels at least: a single one belongs to the local network. The last is no number, or it might be an address."""
_HEX_END = re.compile(r"\.0x[0-9a-f]*\Z", re.ASCII)
_TARGET = re.compile(r"([A-Za-z0-9._-]{1,253}):([0-9]{1,5})", re.ASCII)
_SHOWN = 80


def is_name(text: str) -> bool:
    """Whether this is a host name in its one writing: lower case ASCII, no dot at the end, and no address."""
    return _NAME.fullmatch(text) is not None and _HEX_END.search(text) is None


def declared(hosts: Iterable[str]) -> frozenset[str]:
    """The names of a manifest in the form they are compared in.

    Raises ``InvalidInput('bad_network_host')`` naming the entry, ``InvalidInput('too_many_network_hosts')`` beyond 100.
    """
    listed = list(hosts)
    if len(listed) > MAX_HOSTS:
        raise InvalidInput("too_many_network_hosts", field="network.domains", limit=MAX_HOSTS, count=len(listed))
    return frozenset(_declared(entry) for entry in listed)


def read_target(target: str) -> tuple[str, int] | None:
    """The name and port of a CONNECT request (RFC 9112, 3.2.3); null for whatever is not a name and a port."""
    found = _TARGET.fullmatch(target)
    if found is None:
        return None
    name = found[1].lower()
    return (name, int(found[2])) if is_name(name) else None


def shown(target: str) -> str:
    """What a script asked for, short and with a question mark for each character that names have no use for."""
    return re.sub(r"[^A-Za-z0-9._:/@%\[\]-]", "?", target[:_SHOWN]) or "?"


def _declared(entry: object) -> str:
    if isinstance(entry, str) and len(entry) <= 253:
        name = entry.lower()
        try:
            ascii_name = name if name.isascii() else _to_ascii(name)
        except UnicodeError:
            ascii_name = ""
        if is_name(ascii_name):
            return ascii_name
    raise InvalidInput("bad_network_host", field="network.domains", entry=str(entry)[:_SHOWN])


def _to_ascii(name: str) -> str:
    """By IDNA as addresses in grants are read; what does not come back the same has two readings, and is no name."""
    encoded = name.encode("idna")
    return encoded.decode("ascii") if encoded.decode("idna") == name else ""
