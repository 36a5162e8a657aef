"""Where webhooks may go (B15): read, listed, looked up, and only then spoken to."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.adapters.notifiers.closed import ClosedNotifier
from prowess.adapters.notifiers.webhook import target
from prowess.automation.notifications.addresses import Allowlist, Endpoint, HookUrl, is_public, read_url
from prowess.errors import Denied, InvalidInput


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://hooks.example.com/a/b?c=d", HookUrl("https", Endpoint("hooks.example.com", 443), "/a/b?c=d")),
        ("https://HOOKS.Example.com", HookUrl("https", Endpoint("hooks.example.com", 443), "/")),
        ("http://127.0.0.1:8080/x", HookUrl("http", Endpoint("127.0.0.1", 8080), "/x")),
        ("http://127.0.0.1", HookUrl("http", Endpoint("127.0.0.1", 80), "/")),
        ("https://[2001:DB8:0::1]:8443/", HookUrl("https", Endpoint("2001:db8::1", 8443), "/")),
    ],
)
def test_b15_a_url_is_taken_apart(url: str, expected: HookUrl) -> None:
    assert read_url(url) == expected


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (b"https://hooks.example.com", "type"),
        ("", "length"),
        ("https://hooks.example.com/" + "a" * 2_000, "length"),
        ("https://hooks.example.com/a b", "characters"),
        ("https://hooks.example.com/a\nb", "characters"),
        ("https://hooks.example.com\\@evil.example.com/", "characters"),
        ("https://höoks.example.com/", "characters"),
        ("ftp://hooks.example.com/", "scheme"),
        ("//hooks.example.com/", "scheme"),
        ("https://user:password@hooks.example.com/", "userinfo"),
        ("https://@hooks.example.com/", "userinfo"),
        ("https://hooks.example.com/#part", "fragment"),
        ("https:///path", "host"),
        ("https://hooks.example.com./", "host"),
        ("https://-hooks.example.com/", "host"),
        ("https://hooks..example.com/", "host"),
        ("https://2130706433/", "host"),
        ("https://127.1/", "host"),
        ("https://0127.0.0.1/", "host"),
        ("https://[127.0.0.1]/", "host"),
        ("https://[::1/", "host"),
        ("https://::1/", "host"),
        ("https://hooks.example.com:/", "host"),
        ("https://hooks.example.com:0/", "port"),
        ("https://hooks.example.com:65536/", "port"),
    ],
)
def test_b15_a_url_that_could_be_read_in_two_ways_is_refused(url: object, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_url(url)
    assert (refused.value.code, refused.value.detail) == ("bad_hook_url", {"field": "url", "why": why})


def test_b15_an_allowlist_names_hosts_exactly() -> None:
    allowlist = Allowlist.of(["hooks.example.com", "127.0.0.1:8080", "[::1]:9000", "other.example.com:8443"])
    assert allowlist.endpoints == {
        ("hooks.example.com", 443),
        ("127.0.0.1", 8080),
        ("::1", 9000),
        ("other.example.com", 8443),
    }
    for url in ("https://hooks.example.com/x", "http://127.0.0.1:8080/", "http://[::1]:9000/"):
        allowlist.check(read_url(url))
    for url, code in {
        "https://sub.hooks.example.com/": "host_not_allowed",
        "https://example.com/": "host_not_allowed",
        "https://hooks.example.com:8443/": "host_not_allowed",
        "https://other.example.com/": "host_not_allowed",
        "http://127.0.0.1:8081/": "host_not_allowed",
        "http://localhost:8080/": "host_not_allowed",
        "http://hooks.example.com:443/": "https_required",
    }.items():
        with pytest.raises(Denied) as refused:
            allowlist.check(read_url(url))
        assert refused.value.code == code, url


@pytest.mark.parametrize(
    "entry", ["", "https://hooks.example.com", "a b", "host:port", "user@host", "host/path", 7, "*"]
)
def test_b15_an_entry_that_names_no_host_is_refused(entry: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        Allowlist.of(["hooks.example.com", entry])  # type: ignore[list-item]
    assert refused.value.code == "bad_outgoing_host"
    with pytest.raises(InvalidInput) as refused:
        Allowlist.of("hooks.example.com")
    assert refused.value.code == "wrong_type"
    with pytest.raises(InvalidInput) as refused:
        Allowlist.of(["a.example.com"] * 1_001)
    assert refused.value.code == "too_many_outgoing_hosts"


def test_b15_without_a_list_nobody_is_spoken_to() -> None:
    with pytest.raises(Denied) as refused:
        ClosedNotifier().check(read_url("https://hooks.example.com/"))
    assert refused.value.code == "host_not_allowed"


@pytest.mark.parametrize(
    "address", ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8"]
)
def test_b15_public_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
    ],
)  # fmt: skip
def test_b15_others_are_not_in_whatever_writing(address: str) -> None:
    assert not is_public(ip_address(address))


HOST = Endpoint("hooks.example.com", 443)


def test_b15_a_name_that_leads_inside_is_refused() -> None:
    allowlist = Allowlist.of(["hooks.example.com", "10.0.0.1:443", "127.0.0.1:8080"])
    assert allowlist.choose(HOST, ["93.184.215.14", "8.8.8.8"]) == "93.184.215.14"
    assert allowlist.choose(HOST, ["10.0.0.1"]) == "10.0.0.1", "this very address and port are listed"
    for found in (["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["10.0.0.2"], ["fe80::1%eth0"], ["::1"], [], ["word"]):
        with pytest.raises(Denied) as refused:
            allowlist.choose(HOST, found)
        assert refused.value.code == "address_not_allowed"


@given(st.lists(st.ip_addresses(), min_size=1, max_size=4))
def test_b15_the_address_chosen_is_one_that_was_checked(found: list[object]) -> None:
    allowlist, addresses = Allowlist.of(["hooks.example.com"]), [str(address) for address in found]
    if all(is_public(ip_address(address)) for address in addresses):
        assert allowlist.choose(HOST, addresses) in addresses
    else:
        with pytest.raises(Denied):
            allowlist.choose(HOST, addresses)


def test_b15_the_connection_goes_to_the_checked_address_under_the_name() -> None:
    request = target(read_url("https://hooks.example.com/a?b=c"), "93.184.215.14", {"webhook-id": "n"})
    assert request["url"] == "https://93.184.215.14:443/a?b=c"
    assert request["headers"] == {"webhook-id": "n", "Host": "hooks.example.com"}
    assert request["extensions"] == {"sni_hostname": "hooks.example.com"}
    assert request["follow_redirects"] is False
    request = target(read_url("https://hooks.example.com:8443/"), "2606:4700::1", {})
    assert (request["url"], request["headers"]) == (
        "https://[2606:4700::1]:8443/",
        {"Host": "hooks.example.com:8443"},
    )
