"""Read the head of a request to the proxy: CONNECT and nothing else (RFC 9110, 9.3.6; RFC 9112).

Plain HTTP is not spoken, so nothing of a head is ever passed on, and no request can hide in another. What two readers
could take for different things is refused all the same.
"""

from __future__ import annotations

import re

from prowess.adapters.sandboxes.network.model import Refusal
from prowess.adapters.sandboxes.network.names import HTTPS_PORT, read_target

_BODIES = (b"content-length", b"transfer-encoding", b"upgrade")
_BARE = re.compile(rb"\r(?!\n)|(?<!\r)\n|\n[ \t]|\x00")
"""Line ends that some readers see and others do not, and folded lines."""


class Refused(Exception):
    """A request that is not served. ``asked`` is what it asked for, as far as that could be read: hostile text."""

    def __init__(self, refusal: Refusal, asked: str = "") -> None:
        self.refusal = refusal
        self.asked = asked
        super().__init__(refusal.value)


def read_connect(head: bytes) -> str:
    """The name that a request asks to be connected with, at port 443.

    ``head`` ends with its empty line. Raises ``Refused``, and nothing else, for any bytes.
    """
    method, target, hosts = _read(head)
    if method != b"CONNECT":
        # Of a URL no more than whose it is: the rest may hold what the script would not show.
        raise Refused(Refusal.METHOD, target.partition("://")[2].partition("/")[0] or target)
    found = read_target(target)
    if found is None:
        raise Refused(Refusal.TARGET, target)
    name, port = found
    if port != HTTPS_PORT:
        raise Refused(Refusal.PORT, target)
    if any(host.lower() not in (name, f"{name}:{port}") for host in hosts):
        raise Refused(Refusal.REQUEST, target)
    return name


def _read(head: bytes) -> tuple[bytes, str, list[str]]:
    import h11

    if _BARE.search(head):
        raise Refused(Refusal.REQUEST)
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=len(head) + 1)
    try:
        reader.receive_data(head)
        request = reader.next_event()
    except h11.RemoteProtocolError:
        raise Refused(Refusal.REQUEST) from None
    if not isinstance(request, h11.Request) or request.http_version not in (b"1.0", b"1.1"):
        raise Refused(Refusal.REQUEST)
    if reader.trailing_data[0]:  # it ended before the end that was waited for
        raise Refused(Refusal.REQUEST)
    target = request.target.decode("latin-1")
    if request.method == b"CONNECT" and any(name in _BODIES for name, _ in request.headers):
        raise Refused(Refusal.REQUEST, target)
    return request.method, target, [value.decode("latin-1") for name, value in request.headers if name == b"host"]
