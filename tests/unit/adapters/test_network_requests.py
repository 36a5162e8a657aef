from __future__ import annotations

import pytest

from prowess.adapters.sandboxes.network.model import Refusal
from prowess.adapters.sandboxes.network.requests import Refused, read_connect


def head(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def refusal(content: bytes) -> tuple[Refusal, str]:
    with pytest.raises(Refused) as refused:
        read_connect(content)
    return refused.value.refusal, refused.value.asked


@pytest.mark.parametrize(
    "content",
    [
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com:443"),
        head("CONNECT API.example.com:443 HTTP/1.1", "Host: Api.Example.com", "User-Agent: x"),
        head("CONNECT api.example.com:443 HTTP/1.0"),
    ],
)
def test_x6_connect_is_read(content: bytes) -> None:
    assert read_connect(content) == "api.example.com"


@pytest.mark.parametrize(
    ("content", "asked"),
    [
        (head("GET http://api.example.com/?key=1 HTTP/1.1", "Host: api.example.com"), "api.example.com"),
        (head("GET / HTTP/1.1", "Host: api.example.com"), "/"),
        (head("connect api.example.com:443 HTTP/1.1", "Host: api.example.com:443"), "api.example.com:443"),
        (head("POST http://a@b.example:1/x HTTP/1.1", "Host: a", "Content-Length: 3"), "a@b.example:1"),
    ],
)
def test_x6_only_connect_is_spoken(content: bytes, asked: str) -> None:
    assert refusal(content) == (Refusal.METHOD, asked)


def test_x6_other_ports_and_other_writings() -> None:
    assert refusal(head("CONNECT api.example.com:80 HTTP/1.0")) == (Refusal.PORT, "api.example.com:80")
    assert refusal(head("CONNECT a@api.example.com:443 HTTP/1.0")) == (Refusal.TARGET, "a@api.example.com:443")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
        head("CONNECT api.example.com:443"),
        head("CONNECT api.example.com:443 HTTP/2.0"),
        head("CONNECT  api.example.com:443 HTTP/1.1", "Host: api.example.com:443"),
        head("CONNECT api.example.com:443 evil HTTP/1.1", "Host: api.example.com:443"),
        head("CONNECT api.example.com:443\tHTTP/1.1", "Host: api.example.com:443"),
        head("CONNECT api.example.com:443 HTTP/1.1"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: evil.example"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com:80"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "Host: evil.example"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "Content-Length: 5"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "Transfer-Encoding: chunked"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "Upgrade: h2c"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "Content-Length : 5"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", " folded"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "X: a\nHost: evil.example"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "X: a\rHost: evil.example"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "X: a\0"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "X: a", "\tfolded"),
        head("CONNECT api.example.com:443 HTTP/1.1", "Host: api.example.com", "X: a\nY: b"),
        head("CONNECT api.example.com\0.evil.example:443 HTTP/1.1", "Host: api.example.com"),
        b"CONNECT api.example.com:443 HTTP/1.0\n\nGET / HTTP/1.1\r\n\r\n",
        head("CONNECT api.example.com:443 HTTP/1.0") + b"GET / HTTP/1.0\r\n\r\n",
        "CONNECT api。example.com:443 HTTP/1.0\r\n\r\n".encode(),
    ],
)
def test_x6_what_two_readers_could_read_differently_is_refused(content: bytes) -> None:
    assert refusal(content)[0] is Refusal.REQUEST
