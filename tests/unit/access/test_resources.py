"""What a grant's resource covers (G2, ruling 12.32)."""

from __future__ import annotations

import pytest

from prowess.access.resources import MAX_RESOURCE, check_resource, covers
from prowess.errors import InvalidInput

SITE = "https://example.com"


@pytest.mark.parametrize(
    "asked",
    [
        "https://example.com",
        "https://example.com/",
        "https://example.com/a/b?q=1#top",
        "https://example.com:443/a",
        "HTTPS://EXAMPLE.COM/a",
        "https://example.com./a",
        "https://example.com?q=1",
    ],
)
def test_g2_an_address_is_scheme_host_and_port(asked: str) -> None:
    assert covers(SITE, asked)


@pytest.mark.parametrize(
    "asked",
    [
        "http://example.com/a",
        "https://example.com:8443/a",
        "https://example.com:0/a",
        "https://example.com.evil.com/a",
        "https://evil.com/example.com",
        "https://evil.com?https://example.com",
        "https://evil.com#https://example.com",
        "https://notexample.com",
        "https://www.example.com",
        "https://example.co",
        "https://examp1e.com",
        "https://ex\u0430mple.com",  # a Cyrillic letter
        "ftp://example.com",
        "example.com",
        "//example.com",
        "https:\\\\example.com",
        "",
        None,
    ],
)
def test_g2_another_or_a_look_alike_address_is_not_covered(asked: str | None) -> None:
    assert not covers(SITE, asked)


@pytest.mark.parametrize(
    "asked",
    [
        "https://example.com@evil.com/a",
        "https://user@example.com/a",
        "https://user:password@example.com",
        "https://example.com\\@evil.com",
        "https://example.com\\.evil.com",
        "https://example.com/a/../b",
        "https://example.com/./a",
        "https://example.com/%2e%2e/a",
        "https://example.com/a/%2E%2E",
        "https://example.com/a%2fb",
        "https://example.com/a%2Fb",
        "https://example.com/a%5cb",
        "https://example.com/a\\b",
        "https://example.com /a",
        "https://exam\tple.com/a",
        "https://example.com/a\n",
        "https://example.com:99999/a",
        "https://example.com:x/a",
        "https://[::1/a",
        "https:///a",
        "https://*.example.com/a",
        "https://example.com/" + "a" * MAX_RESOURCE,
        "gopher://example.com/a",
    ],
)
def test_g2_what_could_be_read_in_two_ways_covers_nothing_and_is_covered_by_nothing(asked: str) -> None:
    assert not covers(SITE, asked)
    assert not covers(asked, asked)


def test_g2_default_ports() -> None:
    for scheme, port in (("http", 80), ("https", 443), ("ws", 80), ("wss", 443), ("ftp", 21)):
        assert covers(f"{scheme}://h.example:{port}", f"{scheme}://h.example/x")
        assert covers(f"{scheme}://h.example", f"{scheme}://h.example:{port}/x")
        assert not covers(f"{scheme}://h.example", f"{scheme}://h.example:{port + 1}/x")
    assert not covers("http://h.example:443", "https://h.example")


def test_g2_a_path_prefix_is_on_whole_segments() -> None:
    granted = "https://example.com/api/v1"
    for asked in ("/api/v1", "/api/v1/", "/api/v1/users", "//api//v1/users", "/api/v1?x=1", "/api/%761/users"):
        assert covers(granted, SITE + asked), asked
    for asked in ("", "/", "/api", "/api/v10", "/api/v", "/API/v1", "/x/api/v1", "/api/v1/../v2"):
        assert not covers(granted, SITE + asked), asked
    assert covers(granted + "/", "https://example.com/api/v1")


def test_g2_international_names_are_their_ascii_form() -> None:
    assert covers("https://bücher.example", "https://xn--bcher-kva.example/a")
    assert covers("https://XN--BCHER-KVA.example", "https://Bücher.example/a")
    assert not covers("https://bücher.example", "https://bucher.example/a")


def test_g2_numbers_are_hosts_too() -> None:
    assert covers("http://127.0.0.1:8080", "http://127.0.0.1:8080/x")
    assert not covers("http://127.0.0.1", "http://127.0.0.1.evil.com/x")
    assert covers("http://[::1]:80", "http://[::1]/x")
    assert not covers("http://[::1]", "http://[::2]/x")


@pytest.mark.parametrize("asked", ["/home/u/docs/a", "/home/u/docs/a/b.txt", "/home/u/docs/.hidden"])
def test_g2_a_folder_is_everything_below_it(asked: str) -> None:
    assert covers("/home/u/docs/**", asked)


@pytest.mark.parametrize(
    "asked",
    [
        "/home/u/docs", "/home/u/docs/", "/home/u/docs2/a", "/home/u/docs/../secret", "/home/u/docs/./a",
        "/home/u/docs/a/..", "/home/u/docs/..\\secret", "/home/u/docs/a\0b", "home/u/docs/a", "/HOME/u/docs/a",
        "https://h/home/u/docs/a", None,
    ],
)  # fmt: skip
def test_g2_what_is_not_below_the_folder_is_not_covered(asked: str | None) -> None:
    assert not covers("/home/u/docs/**", asked)


def test_g2_any_other_resource_is_itself() -> None:
    assert covers("/etc/hosts", "/etc/hosts")
    assert not covers("/etc/hosts", "/etc/hosts.allow")
    assert not covers("/etc", "/etc/hosts")
    assert not covers("calendar", "Calendar")
    assert not covers("a*", "ab")
    assert not covers("a", None)


@pytest.mark.parametrize(
    "resource",
    [
        "", " ", "/**", "~/**", "./**", "a\n", "a\0", "a" * (MAX_RESOURCE + 1), "https://user@h.example",
        "https://h.example/../x", "https://*.example", "://", "/a/../**", "/a\\b/**", "nowhere://h",
    ],
)  # fmt: skip
def test_g2_s5_what_could_cover_nothing_or_everything_cannot_be_granted(resource: str) -> None:
    with pytest.raises(InvalidInput, match="bad_resource"):
        check_resource(resource)


@pytest.mark.parametrize(
    "resource", ["calendar", "/home/u/docs/**", "/etc/hosts", "https://h.example:8443/api", "日历"]
)
def test_g2_what_can_be_granted_covers_itself(resource: str) -> None:
    assert check_resource(resource) == resource
    assert resource.endswith("/**") or covers(resource, resource)
