from __future__ import annotations

import pytest

from prowess.adapters.sandboxes.network.names import MAX_HOSTS, declared, read_target, shown
from prowess.errors import InvalidInput


def test_s5_names_of_a_manifest_are_compared_in_lower_case_ascii() -> None:
    assert declared(["API.Example.com", "bücher.example", "xn--bcher-kva.example", "a_b.example.com"]) == {
        "api.example.com",
        "xn--bcher-kva.example",
        "a_b.example.com",
    }


@pytest.mark.parametrize(
    "entry",
    [
        "", "*", "*.example.com", ".example.com", "example.com.", "example..com", "localhost", "https://example.com",
        "example.com:443", "example.com/", "a@example.com", "a b.example.com", "example.com\n", "example.com\0",
        "93.184.216.34", "[2606:2800::1]", "2606:2800::1", "1.2.3", "127.1", "a.0x7f", "example.0x", "1.2.3.0x4",
        "-a.example.com", "a-.example.com", f"{'a' * 64}.example.com", "a." * 127 + "example",
        "straße.example", "ｅxample.com", "example。com", "exa\u00admple.com", "\ud800.com", 7, None,
    ],
)  # fmt: skip
def test_s5_what_is_no_exact_name_cannot_be_declared(entry: object) -> None:
    with pytest.raises(InvalidInput) as error:
        declared(["api.example.com", entry])  # type: ignore[list-item]
    assert error.value.code == "bad_network_host"
    assert error.value.detail["field"] == "network.domains"


def test_s5_so_many_hosts_can_be_declared() -> None:
    names = [f"h{number}.example.com" for number in range(MAX_HOSTS)]
    assert len(declared(names)) == MAX_HOSTS
    with pytest.raises(InvalidInput) as error:
        declared([*names, "one.example.com"])
    assert error.value.code == "too_many_network_hosts"


def test_x6_a_target_is_a_name_and_a_port() -> None:
    assert read_target("api.example.com:443") == ("api.example.com", 443)
    assert read_target("API.Example.COM:22") == ("api.example.com", 22)


@pytest.mark.parametrize(
    "target",
    [
        "", ":", ":443", "api.example.com", "api.example.com:", "api.example.com:443:443", "api.example.com:+443",
        "api.example.com:443 ", " api.example.com:443", "api.example.com.:443", "api.example.com:4_43",
        "api.example.com:٤٤٣", "api.example.com:444444", "a@api.example.com:443", "api.example.com@evil.example:443",
        "api.example.com\0.evil.example:443", "api.example.com%00:443", "api.example.com%2eevil.example:443",
        "api.example.com#:443", "api.example.com/:443", "api。example.com:443", "ａpi.example.com:443",
        "93.184.216.34:443", "1572395042:443", "0x5db8d822:443", "0135.0270.0330.042:443", "93.12113954:443",
        "0x5d.0xb8.0xd8.0x22:443", "127.1:443", "0:443", "[::1]:443", "::1:443", "[::ffff:93.184.216.34]:443",
        "[fe80::1%25lo]:443", "localhost:443", "http://api.example.com:443", "api.example.com:443/",
    ],
)  # fmt: skip
def test_x6_every_other_writing_is_no_target(target: str) -> None:
    assert read_target(target) is None


def test_r3_what_a_script_asked_for_is_shown_without_what_could_deceive() -> None:
    assert shown("evil.example\r\n\x1b[31m\u202eok") == "evil.example???[31m?ok"
    assert shown("[::1]:443") == "[::1]:443"
    assert shown("x" * 500) == "x" * 80
    assert shown("") == "?"
