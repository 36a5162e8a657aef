"""The proxy's readers: no bytes make them raise anything but a refusal, or let through a name that is not declared."""

from __future__ import annotations

import string

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support import hellos

from prowess.adapters.sandboxes.network.hello import HEADER, BadHello, HelloReader, server_name
from prowess.adapters.sandboxes.network.model import POLICY
from prowess.adapters.sandboxes.network.names import declared, is_name, read_target
from prowess.adapters.sandboxes.network.requests import Refused, read_connect

DECLARED = declared(["api.example.com", "bücher.example"])
PIECES = (
    "api.example.com",
    "bücher.example",
    "evil.example",
    "\0",
    "\r\n",
    " ",
    "@",
    ":443",
    ":",
    ".",
    "。",
    "%00",
    "[",
    "]",
)
near_names = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=5).map("".join)
REAL = hellos.real("api.example.com")


@given(near_names | st.text(max_size=60))
@example("api.example.com:443")
def test_x6_a_target_that_is_let_through_is_written_like_a_declared_name(target: str) -> None:
    found = read_target(target)
    if found is not None and found[0] in DECLARED:
        name, _, port = target.rpartition(":")
        assert name.lower() in ("api.example.com", "xn--bcher-kva.example")
        assert name.isascii()
        assert int(port) == found[1]


@given(st.binary(max_size=200) | near_names.map(lambda t: f"CONNECT {t} HTTP/1.1\r\nHost: {t}\r\n\r\n".encode()))
@example(b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n")
def test_x6_any_head_is_read_or_refused(head: bytes) -> None:
    try:
        name = read_connect(head)
    except Refused as refused:
        assert refused.refusal in POLICY
    else:
        assert is_name(name)
        assert head.lower().startswith(b"connect " + name.encode() + b":443 http/1.")


@given(st.lists(st.binary(max_size=60), max_size=6), st.lists(st.integers(0, 70_000), min_size=6, max_size=6))
def test_x6_any_records_are_read_or_refused(fragments: list[bytes], lengths: list[int]) -> None:
    reader = HelloReader()
    try:
        for fragment, length in zip(fragments, lengths, strict=False):
            reader.length(b"\x16\x03\x01" + (length % 65_536).to_bytes(2, "big"))
            name = reader.add(fragment)
            assert name is None or name == "" or is_name(name)
    except BadHello:
        pass


@given(st.data())
def test_x6_a_hello_with_changed_bytes_names_what_is_written_in_it_or_nobody(data: st.DataObject) -> None:
    content = bytearray(REAL)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(REAL) - 1), st.integers(0, 255)), max_size=8)):
        content[at] = byte
    reader = HelloReader()
    try:
        length = reader.length(bytes(content[:HEADER]))
        name = reader.add(bytes(content[HEADER : HEADER + length])) if len(content) > HEADER else None
    except BadHello:
        return
    if name:
        assert is_name(name)
        assert name.encode() in bytes(content).lower()


@given(st.binary(max_size=300), st.text(string.ascii_lowercase + ".-", min_size=1, max_size=30))
def test_x6_no_body_of_a_hello_is_more_than_one_name(extensions: bytes, name: str) -> None:
    try:
        found = server_name(hellos.body(hellos.name_extension(name.encode()) + extensions))
    except BadHello:
        return
    assert found == name
