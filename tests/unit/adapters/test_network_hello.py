from __future__ import annotations

import pytest
from tests.support import hellos
from tests.support.hellos import body, extension, message, name_extension, records, vector

from prowess.adapters.sandboxes.network.hello import HEADER, MAX_HELLO, MAX_RECORDS, BadHello, HelloReader

NAME = b"api.example.com"
GOOD = name_extension(NAME)


def read(content: bytes) -> str | None:
    """As the proxy reads: record by record; null where more is wanted."""
    reader, at = HelloReader(), 0
    while at < len(content):
        length = reader.length(content[at : at + HEADER])
        at += HEADER
        name = reader.add(content[at : at + length])
        if name is not None:
            return name
        at += length
    return None


def test_x6_the_name_in_a_real_hello() -> None:
    assert read(hellos.real("api.example.com")) == "api.example.com"
    assert read(hellos.real("API.Example.com")) == "api.example.com"
    assert read(hellos.real(None)) == ""


@pytest.mark.parametrize("size", [60, 200, 16_384])
def test_x6_a_hello_in_pieces_is_put_together(size: int) -> None:
    whole = message(body(extension(10, b"\x00\x02\x00\x1d") + GOOD + extension(43, b"\x02\x03\x04")))
    assert read(records(whole, size)) == "api.example.com"
    assert read(records(whole[:-1], size)) is None


def test_x6_what_comes_after_the_hello_is_not_read() -> None:
    assert read(records(message(body(GOOD))) + b"\x14\x03\x03\x00\x01\x01") == "api.example.com"


def test_x6_a_hello_without_extensions_names_nobody() -> None:
    assert read(records(message(body(None)))) == ""
    assert read(records(message(body(b"")))) == ""


@pytest.mark.parametrize(
    "extensions",
    [
        name_extension(NAME, b"evil.example"),
        name_extension(NAME, NAME),
        name_extension(),
        name_extension(b""),
        name_extension(NAME, kind=1),
        GOOD + name_extension(b"evil.example"),
        GOOD + GOOD,
        GOOD + extension(10, b"") + extension(10, b""),
        GOOD + extension(hellos.ECH, b"\x00"),
        GOOD + extension(0xFFCE, b"\x00"),
        extension(hellos.SERVER_NAME, b""),
        extension(hellos.SERVER_NAME, vector(2, b"\x00" + vector(2, NAME)) + b"x"),
        extension(hellos.SERVER_NAME, vector(2, b"\x00" + vector(2, NAME) + b"x")),
        extension(hellos.SERVER_NAME, vector(2, b"\x00\xff\xff" + NAME)),
        name_extension(b"api.example.com."),
        name_extension(b"api.example.com\x00.evil.example"),
        name_extension(b"api.example.com\n"),
        name_extension(b"93.184.216.34"),
        name_extension("bücher.example".encode()),
        name_extension(b"\xc3\xa9\xff"),
        name_extension(b"a." * 200 + b"example"),
        GOOD + b"\x00",
        GOOD + b"\x00\x0a\x00\x05abcd",
    ],
)
def test_x6_a_name_that_cannot_be_checked_is_refused(extensions: bytes) -> None:
    with pytest.raises(BadHello):
        read(records(message(body(extensions))))


@pytest.mark.parametrize(
    "content",
    [
        b"\x17\x03\x03\x00\x01x",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x16\x02\x00\x00\x01\x01",
        b"\x16\x03\x05\x00\x01\x01",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x40\x01",
        b"\x80\x2e\x01\x03\x01",  # a hello of SSL 2
        b"GET /",
        b"SSH-2",
        b"\x16\x03",
        records(b"\x02" + vector(3, body(GOOD))),
        records(message(body(GOOD)) + b"\x01"),
        records(message(body(GOOD))[:10]) + records(message(body(GOOD))),
        records(message(bytes(MAX_HELLO))),
        records(message(body(GOOD)), 1),
        records(message(body(GOOD) + b"x")),
        records(message(body(GOOD)[:20])),
        records(message(body(GOOD)[:-1])),
        records(message(b"\x03\x03" + bytes(32) + vector(1, bytes(33)) + vector(2, b"\x13\x01") + b"\x01\x00")),
        records(message(b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x00" + b"\x01\x00")),
    ],
)
def test_x6_what_is_no_hello_is_refused(content: bytes) -> None:
    with pytest.raises(BadHello):
        read(content)


def test_x6_a_hello_comes_in_so_many_records() -> None:
    whole = message(body(GOOD + extension(21, bytes(1000))))
    size = -(-len(whole) // MAX_RECORDS)
    assert read(records(whole, size)) == "api.example.com"
    with pytest.raises(BadHello):
        read(records(whole, size - 10))
