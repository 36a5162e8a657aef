"""Which values a slot takes."""

from __future__ import annotations

import json

import pytest

from prowess.errors import InvalidInput
from prowess.kernel.redaction import MAX_SECRET
from prowess.secrets.model import SecretOwner, SecretSlot
from prowess.secrets.values import check_value

KEY_FILE = json.dumps({"type": "service_account", "private_key": "-----BEGIN-----\nMIIE\n-----END-----\n"}, indent=2)


@pytest.mark.parametrize(
    "value",
    [
        "hunter22",
        "sk-live-1234567890",
        "correct horse battery staple",
        "ABCDEFGH",
        "1234567890123456",
        "密码一二三四五六",
        'pa"ss"word1',
        "-----BEGIN KEY-----\nAbCd\n-----END KEY-----\n",
        KEY_FILE,
        "x1" * (MAX_SECRET // 2),
    ],
    ids=range(10),
)
def test_u4_a_value_fit_for_a_slot(value: str) -> None:
    check_value(value, ("default", "u1"))


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "secret_too_short"),
        ("1234567", "secret_too_short"),
        ("  abc12  ", "secret_too_short"),
        ("x1" * (MAX_SECRET // 2) + "x", "secret_too_long"),
        ("abc\x00defgh", "secret_not_text"),
        ("abcdefg1\ud800", "secret_not_text"),
        ("completed", "secret_too_plain"),
        ("waiting_user", "secret_too_plain"),
        ("turn.completed", "secret_too_plain"),
        ("urn.complete", "secret_too_plain"),
        ("2026-03-01", "secret_too_plain"),
        ("12345678", "secret_too_plain"),
        ('{"layer":"L3"}', "secret_too_plain"),
        ('A1","role":"', "secret_too_plain"),
        ('"b7" : "' * 20, "secret_too_plain"),
        ("[secret]", "secret_too_plain"),
        ("Ab1 [secret] Ab1", "secret_too_plain"),
        ("Tenant-One-1", "secret_too_plain"),
        ("Tenant-One", "secret_too_plain"),
        (None, "wrong_type"),
        (b"bytesbytes1", "wrong_type"),
    ],
    ids=range(21),
)
def test_u4_a_value_that_no_slot_takes(value: object, code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_value(value, ("Tenant-One-1", "u1"))
    assert refused.value.code == code
    if isinstance(value, str) and value:
        assert value not in str(refused.value.to_json())
    assert refused.value.__cause__ is None


def test_u4_a_slot_is_the_callers() -> None:
    caller = {"tenant": "t1", "user": "u1", "skill": "weather"}
    assert SecretSlot("API_KEY", "user").owner(**caller) == SecretOwner("user", "u1")
    assert SecretSlot("API_KEY", "tenant").owner(**caller) == SecretOwner("tenant", "t1")
    assert SecretSlot("API_KEY", "skill").owner(**caller) == SecretOwner("skill", "weather")


@pytest.mark.parametrize("name", ["", "api_key", "1KEY", "_KEY", "KEY-1", "K" * 65, "KEY\n", None])
def test_u4_names_of_slots_are_those_of_variables(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        SecretSlot(name, "user")
    assert refused.value.code == "bad_secret_name"
    with pytest.raises(InvalidInput):
        SecretSlot("KEY", "agent")  # type: ignore[arg-type]
