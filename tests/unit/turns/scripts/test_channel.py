"""What of a script's own words reaches an audit row (R3)."""

from __future__ import annotations

import pytest

from prowess.turns.scripts.channel import _shown


@pytest.mark.parametrize(
    ("denied", "shown"),
    [
        ("file /etc/passwd", "file /etc/passwd"),
        ("file /etc/what the user said", "file /etc/…"),
        ("fs:write /her secret is 42/x", "fs:write /…"),
        ("file /etc/../etc/passwd", "file /etc/passwd"),
        ("file /a\0b", "file /…"),
        ("network:host what-she-said.and-more.evil.example", "network:host evil.example"),
        ("command curl", "command curl"),
        ("tool words of a user", "tool ?"),
        ("socket", "socket"),
    ],
)
def test_r3_a_script_cannot_write_what_it_read_into_the_audit(denied: str, shown: str) -> None:
    assert _shown(denied) == shown
