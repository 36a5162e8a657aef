"""Redacting by value: no usual writing of a secret survives, and nothing else changes."""

from __future__ import annotations

import base64
import json
import pickle
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.kernel.redaction import MARK, MAX_SECRET, NO_REDACTION, Redactor, writings

TOKEN = "sk-Live/9+7=Äé\"'\\ 42"

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "json ascii": lambda value: json.dumps(value)[1:-1],
    "json ascii capitals": lambda value: re.sub(
        r"\\(?:u[0-9a-f]{4}|.)",
        lambda escape: "\\u" + escape[0][2:].upper() if len(escape[0]) == 6 else escape[0],
        json.dumps(value)[1:-1],
    ),
    "json every character": lambda value: "".join(
        f"\\u{value.encode('utf-16-be')[at : at + 2].hex()}" for at in range(0, len(value.encode("utf-16-be")), 2)
    ),
    "json slashes": lambda value: json.dumps(value)[1:-1].replace("/", "\\/"),
    "json in json": lambda value: json.dumps(json.dumps(value, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1],
    "percent": lambda value: quote(value, safe=""),
    "percent but slashes": quote,
    "percent form": quote_plus,
    "percent as browsers": lambda value: quote(value, safe="!'()*~"),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 unpadded": lambda value: base64.b64encode(value.encode()).decode().rstrip("="),
    "base64 url": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "base64 url unpadded": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "hex": lambda value: value.encode().hex(),
    "hex capitals": lambda value: value.encode().hex().upper(),
    "repr": lambda value: repr(value)[1:-1],
    "ascii": lambda value: ascii(value)[1:-1],
    "bytes": lambda value: repr(value.encode())[2:-1],
}

characters = st.characters(exclude_categories=["Cs"])
values = st.text(characters, min_size=8, max_size=40).filter(lambda value: len(value.strip()) >= 8)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_u4_no_writing_of_a_secret_survives(encoding: str) -> None:
    written = ENCODINGS[encoding](TOKEN)
    redactor = Redactor([TOKEN])
    assert redactor.redact(f"before {written} after") == f"before {MARK} after"
    assert redactor.redact(written) == MARK


@given(
    st.lists(values, min_size=1, max_size=4),
    st.sampled_from(sorted(ENCODINGS)),
    st.text(characters),
    st.text(characters),
)
def test_u4_no_secret_survives_whatever_stands_around_it(
    secrets: list[str], encoding: str, before: str, after: str
) -> None:
    text = before + after.join(ENCODINGS[encoding](value) for value in secrets) + after
    pieces = Redactor(secrets).redact(text).split(MARK)
    survivors = [
        (name, value)
        for value in secrets
        for name, encode in ENCODINGS.items()
        for piece in pieces
        if encode(value) in piece
    ]
    assert survivors == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(characters),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(characters), inner, max_size=3),
)


@given(values, json_values, st.booleans())
def test_u4_a_json_document_remains_one(secret: str, around: object, ascii_only: bool) -> None:
    document = json.dumps({"a": [secret, around], f"key {secret}": f"x{secret}x"}, ensure_ascii=ascii_only)
    clean = Redactor([secret]).redact(document)
    if '"' not in secret and any(character.isalpha() for character in secret):
        json.loads(clean)
    assert all(encode(secret) not in piece for encode in ENCODINGS.values() for piece in clean.split(MARK))


@given(st.text(characters), values)
def test_u4_text_without_secrets_is_the_same_object(text: str, secret: str) -> None:
    if not any(writing in text for writing in writings(secret)):
        assert Redactor([secret]).redact(text) is text


def test_u4_overlapping_values_go_together() -> None:
    redactor = Redactor(["abcdefgh", "efghijkl", "ijklmnop"])
    assert redactor.redact("<abcdefghijklmnop>") == f"<{MARK}>"
    assert redactor.redact("<abcdefgh><ijklmnop>") == f"<{MARK}><{MARK}>"
    assert Redactor(["aaaaaaaa"]).redact("a" * 20) == MARK


def test_u4_the_longest_value_goes_first() -> None:
    assert Redactor(["sk-live-1", "sk-live-1-and-more"]).redact("(sk-live-1-and-more)") == f"({MARK})"
    assert Redactor(["sk-live-1", "sk-live-1-and-more"]).redact("(sk-live-1-and-less)") == f"({MARK}-and-less)"


def test_u4_strings_numbers_and_keys_of_json_are_redacted_one_by_one() -> None:
    redactor = Redactor(["12345678", "tok\"en,'x'"])
    document = '{"pin": 12345678, "tok\\"en,\'x\'": "see tok\\"en,\'x\'", "other": 123456789, "list": [true, null]}'
    clean = redactor.redact(document)
    assert clean == f'{{"pin": "{MARK}", "{MARK}": "see {MARK}", "other": {MARK}9, "list": [true, null]}}'


def test_u4_a_secret_that_is_a_document_leaves_a_document() -> None:
    key_file = json.dumps({"type": "service_account", "private_key": "-----BEGIN-----\nMIIE\n-----END-----\n"})
    redactor = Redactor([key_file])
    assert json.loads(redactor.redact(f'{{"credentials": {key_file}}}')) == {"credentials": {MARK: MARK}}
    assert json.loads(redactor.redact(json.dumps({"text": f"my key: {key_file}"}))) == {"text": f"my key: {MARK}"}
    assert json.loads(redactor.redact(key_file)) == {MARK: MARK}
    assert redactor.redact(f"my key: {key_file}") == f"my key: {MARK}"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_u4_documents_in_documents_hide_nothing(encoding: str) -> None:
    document = json.dumps([f"x{ENCODINGS[encoding](TOKEN)}x"])
    for _ in range(4):
        document = json.dumps({"output": document, "n": 1})
    clean = Redactor([TOKEN]).redact(document)
    for _ in range(4):
        clean = json.loads(clean)["output"]
    assert json.loads(clean) == [f"x{MARK}x"]
    assert Redactor(["else-Where-1"]).redact(document) is document


def test_u4_line_ends_outer_space_and_case_hide_nothing() -> None:
    redactor = Redactor(["-----BEGIN KEY-----\nAbCdEf\n-----END KEY-----\n"])
    assert redactor.redact("x -----BEGIN KEY-----\r\nAbCdEf\r\n-----END KEY----- x") == f"x {MARK} x"
    assert redactor.redact("-----begin key-----\nabcdef\n-----end key-----") == MARK


def test_u4_values_are_redacted_in_depth() -> None:
    redactor = Redactor(["hunter2hunter2", "12345678"])
    given = {"a": ["hunter2hunter2", ("x", 12345678)], "hunter2hunter2": {"n": 1.5, "b": True, "z": None}}
    assert redactor.redact_value(given) == {"a": [MARK, ["x", MARK]], MARK: {"n": 1.5, "b": True, "z": None}}


def test_u4_none_and_short_values_redact_nothing() -> None:
    for redactor in (NO_REDACTION, Redactor(), Redactor(["", "short", "       x       "])):
        assert not redactor
        value = {"a": ["short", 1]}
        assert redactor.redact_value(value) is value
        assert redactor.redact("short " * 3) == "short " * 3


def test_u4_a_redactor_grows_and_never_changes() -> None:
    first = Redactor(["hunter2hunter2"])
    second = first.extended(["other-Secret"])
    assert second.extended(["hunter2hunter2", "other-Secret"]) is second
    assert first.redact("hunter2hunter2 other-Secret") == f"{MARK} other-Secret"
    assert second.redact("hunter2hunter2 other-Secret") == f"{MARK} {MARK}"


def test_u4_a_redactor_shows_nothing_and_does_not_travel() -> None:
    redactor = Redactor(["hunter2hunter2"])
    assert "hunter2" not in repr(redactor)
    with pytest.raises(TypeError):
        pickle.dumps(redactor)


def test_u4_the_longest_secret_is_found_in_a_long_text() -> None:
    secret = ("aB3/" * MAX_SECRET)[:MAX_SECRET]
    assert Redactor([secret]).redact(f"{'x' * 50_000}{quote(secret, safe='')}y") == f"{'x' * 50_000}{MARK}y"


def test_u4_broken_and_deep_documents_are_text() -> None:
    redactor = Redactor(["hunter2hunter2"])
    assert redactor.redact('{"a": "hunter2hunter2"') == f'{{"a": "{MARK}"'
    deep = "[" * 50_000 + '"hunter2hunter2"' + "]" * 50_000
    assert redactor.redact(deep) == deep.replace("hunter2hunter2", MARK)
