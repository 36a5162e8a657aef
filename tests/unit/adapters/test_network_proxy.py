"""The proxy with real servers, in a network namespace of the test's own: what gets through, and what no server sees."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import hellos
from tests.support.hellos import body, extension, message, name_extension, records
from tests.support.kit import LIMIT
from tests.support.namespaces import Call, process_in_namespace
from tests.support.outside import ADDRESSES, API, API6, OTHER

from prowess.adapters.sandboxes.network import proxy as proxies
from prowess.adapters.sandboxes.network.model import NetworkLimits, Refusal
from prowess.adapters.sandboxes.network.proxy import ALERT, ANSWERS, FilteringProxy, look_up
from prowess.errors import InvalidInput

OK = "HTTP/1.1 200 Connection established"
SEEN = [[ADDRESSES[API], "connection"], [ADDRESSES[API], "request", API]]
"""what the server says of one request"""


@pytest.fixture(scope="module")
def outside() -> Iterator[Call]:
    with process_in_namespace("tests.support.outside") as call:
        yield call


def latin(content: bytes) -> str:
    return content.decode("latin-1")


def test_x6_a_declared_host_is_reached(outside: Call) -> None:
    report = outside("fetch", hosts=[API.upper()], url=f"https://{API}/", times=2)
    assert report["bodies"] == [f"hello from {API}"] * 2
    assert report["log"] == SEEN * 2
    assert report["lookups"] == [API, API]
    assert report["denied"] == []
    traffic = report["audit"]["hosts"][API]
    assert traffic["tunnels"] == 2
    assert 500 < traffic["up_bytes"] < 20_000
    assert 1_000 < traffic["down_bytes"] < 20_000
    assert report["audit"]["refused"] == {}
    assert not report["socket_left"]


def test_x6_much_goes_through_in_both_directions(outside: Call) -> None:
    down = outside("fetch", hosts=[API], url=f"https://{API}/5000000")
    assert len(down["bodies"][0]) == 5_000_000
    up = outside("fetch", hosts=[API], url=f"https://{API}/", post=5_000_000)
    assert up["bodies"] == ["5000000"]
    assert up["audit"]["hosts"][API]["up_bytes"] > 5_000_000


def test_x6_an_address_of_version_6_is_reached(outside: Call) -> None:
    report = outside("fetch", hosts=[API], url=f"https://{API}/", answers={API: [[API6]]})
    assert report["bodies"] == [f"hello from {API}"]
    assert report["log"][0] == [API6, "connection"]


def test_x6_the_next_address_is_tried(outside: Call) -> None:
    gone = [["93.184.216.99", ADDRESSES[API]]]
    report = outside("fetch", hosts=[API], url=f"https://{API}/", answers={API: gone}, limits={"dial_s": 2.0})
    assert report["bodies"] == [f"hello from {API}"]


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (f"{OTHER}:443", Refusal.HOST),
        (f"evil{API}:443", Refusal.HOST),
        (f"{API}.evil.test:443", Refusal.HOST),
        (f"x.{API}:443", Refusal.HOST),
        ("example.test:443", Refusal.HOST),
        (f"{API}.:443", Refusal.TARGET),
        (f"{OTHER}@{API}:443", Refusal.TARGET),
        (f"{API}@{OTHER}:443", Refusal.TARGET),
        (f"{API}%00.{OTHER}:443", Refusal.TARGET),
        ("93.184.216.34:443", Refusal.TARGET),
        ("1572395042:443", Refusal.TARGET),
        ("0x5db8d822:443", Refusal.TARGET),
        ("0135.0270.0330.042:443", Refusal.TARGET),
        ("93.12113954:443", Refusal.TARGET),
        ("127.0.0.1:443", Refusal.TARGET),
        ("127.1:443", Refusal.TARGET),
        ("[::1]:443", Refusal.TARGET),
        ("::1:443", Refusal.TARGET),
        (f"[{API6}]:443", Refusal.TARGET),
        ("[fe80::1%25lo]:443", Refusal.TARGET),
        ("localhost:443", Refusal.TARGET),
        (f"{API}:80", Refusal.PORT),
        (f"{API}:8443", Refusal.PORT),
        (f"{API}:0443", None),
    ],
)
def test_x6_name_tricks_reach_nobody(outside: Call, target: str, why: Refusal | None) -> None:
    report = outside("raw", hosts=[API], sent=f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
    if why is None:  # the same port in another writing
        why = Refusal.REQUEST
    assert report["received"].startswith(f"HTTP/1.1 {ANSWERS[why]}\r\n")
    assert report["log"] == []
    assert report["lookups"] == []
    assert report["refused"] == {why.value: 1}
    assert len(report["denied"]) == 1


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (f"GET http://{API}/ HTTP/1.1\r\nHost: {API}\r\n\r\n", Refusal.METHOD),
        (f"GET http://{OTHER}/ HTTP/1.1\r\nHost: {API}\r\n\r\n", Refusal.METHOD),
        (f"GET / HTTP/1.1\r\nHost: {OTHER}\r\n\r\n", Refusal.METHOD),
        (f"CONNECT {API}:443 HTTP/1.1\r\nHost: {OTHER}:443\r\n\r\n", Refusal.REQUEST),
        (f"CONNECT {API}:443 HTTP/1.1\r\nHost: {API}\r\nContent-Length: 9\r\n\r\nGET / HTT", Refusal.REQUEST),
        (f"CONNECT {API}:443 HTTP/1.1\r\nHost: {API}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Refusal.REQUEST),
        (f"CONNECT {API}\0.{OTHER}:443 HTTP/1.1\r\nHost: {API}\r\n\r\n", Refusal.REQUEST),
        (f"CONNECT {API}:443 HTTP/1.1\nHost: {API}\n\nCONNECT {OTHER}:443 HTTP/1.1\r\n\r\n", Refusal.REQUEST),
        (f"CONNECT {API}:443 HTTP/1.1\r\nX: {'x' * 9000}\r\n\r\n", Refusal.REQUEST),
        (latin(hellos.real(API)) + "\r\n\r\n", Refusal.REQUEST),
    ],
)
def test_x6_request_tricks_reach_nobody(outside: Call, sent: str, why: Refusal) -> None:
    report = outside("raw", hosts=[API], sent=sent)
    assert report["received"].startswith(f"HTTP/1.1 {ANSWERS[why]}\r\n")
    assert report["log"] == []
    assert report["lookups"] == []
    assert report["refused"] == {why.value: 1}


def test_x6_libraries_show_why(outside: Call) -> None:
    report = outside("fetch", hosts=[API], url=f"https://{OTHER}/")
    assert report["errors"] == [f"Tunnel connection failed: {ANSWERS[Refusal.HOST]}"]
    assert report["denied"] == [f"network:host {OTHER}"]
    assert report["audit"] == {"hosts": {}, "refused": {"host": 1}}
    plain = outside("fetch", hosts=[API], url=f"http://{API}/secret?key=1")
    assert plain["errors"] == [ANSWERS[Refusal.METHOD].partition(" ")[2]]
    assert plain["denied"] == [f"network:host {API}"]
    nowhere = outside("fetch", hosts=["gone.example.test"], url="https://gone.example.test/")
    assert nowhere["errors"] == [f"Tunnel connection failed: {ANSWERS[Refusal.LOOKUP]}"]
    assert nowhere["denied"] == []


def test_s5_a_run_without_hosts_reaches_nobody(outside: Call) -> None:
    report = outside("fetch", hosts=[], url=f"https://{API}/")
    assert report["bodies"] == [""]
    assert report["log"] == []
    assert report["refused"] == {"host": 1}


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"], ["10.0.0.5"], ["169.254.169.254"], ["::1"], ["fd00::5"], ["::ffff:10.0.0.5"], ["::ffff:127.0.0.1"],
        ["64:ff9b::a00:5"], ["2002:a00:5::1"], ["0.0.0.0"], ["::"], ["100.64.0.1"], ["224.0.0.1"], ["fe80::1%lo"],
        ["93.184.216.34", "10.0.0.5"], ["10.0.0.5", "93.184.216.34"], ["2606:2800:220:1::34", "::1"], ["no address"],
    ],
)  # fmt: skip
def test_x6_a_name_at_an_address_that_is_not_public_is_refused(outside: Call, answer: list[str]) -> None:
    report = outside("fetch", hosts=[API], url=f"https://{API}/", answers={API: [answer]})
    assert report["errors"] == [f"Tunnel connection failed: {ANSWERS[Refusal.ADDRESS]}"]
    assert report["log"] == []
    assert report["denied"] == [f"network:host {API}"]


def test_x6_a_name_that_changes_its_address_gains_nothing(outside: Call) -> None:
    answers = {API: [[ADDRESSES[API]], ["127.0.0.1"], ["10.0.0.5"]]}
    report = outside("fetch", hosts=[API], url=f"https://{API}/", times=3, answers=answers)
    assert report["bodies"] == [f"hello from {API}", "", ""]
    assert report["lookups"] == [API] * 3  # once for each tunnel
    assert report["log"] == SEEN


@pytest.mark.parametrize(("name", "denied"), [(OTHER, OTHER), (None, API), (f"x.{API}", f"x.{API}")])
def test_x6_tls_for_another_name_says_nothing_to_the_host(outside: Call, name: str | None, denied: str) -> None:
    report = outside("handshake", hosts=[API, "x.other.test"], host=API, name=name)
    assert report["connected"] == OK
    assert "access denied" in report["error"]
    assert report["log"] == [[ADDRESSES[API], "connection"]]
    assert report["denied"] == [f"network:host {denied}"]
    assert report["audit"] == {"hosts": {}, "refused": {"name": 1}}


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: api.example.test\r\n\r\n", "hello"),
        (b"SSH-2.0-client\r\n", "hello"),
        (b"\x80\x2e\x01\x03\x01", "hello"),
        (records(message(body(name_extension(API.encode()) + extension(hellos.ECH, b"\x00")))), "hello"),
        (records(message(body(name_extension(API.encode(), OTHER.encode())))), "hello"),
        (records(message(body(name_extension(API.encode()) + name_extension(OTHER.encode())))), "hello"),
        (records(message(body(name_extension(f"{API}.".encode())))), "hello"),
        (records(message(body(name_extension(b"93.184.216.34")))), "hello"),
        (records(message(body(name_extension(OTHER.encode())))), "name"),
        (records(message(body(name_extension(OTHER.encode()))), 60), "name"),
        (records(message(body(None))), "name"),
    ],
)
def test_x6_a_hello_that_cannot_be_checked_says_nothing_to_the_host(outside: Call, first: bytes, why: str) -> None:
    report = outside("tunnel", hosts=[API], host=API, first=latin(first))
    assert report["received"] == latin(ALERT)
    assert report["refused"] == {why: 1}
    assert report["log"] == [[ADDRESSES[API], "connection"]]
    assert report["audit"]["hosts"] == {}


def test_x6_a_hello_in_pieces_gets_through(outside: Call) -> None:
    pieces = records(hellos.real(API)[5:], 100)
    report = outside("tunnel", hosts=[API], host=API, first=latin(pieces), end=True)
    assert report["received"].startswith("\x16\x03\x03")
    assert report["audit"]["hosts"][API]["up_bytes"] == len(pieces)
    assert report["refused"] == {}


def test_x6_what_is_said_inside_tls_is_not_seen(outside: Call) -> None:
    # Domain fronting (docs/sandbox-network.md): the name inside is for the host to judge.
    report = outside("handshake", hosts=[API], host=API, name=API, http_host=OTHER)
    assert report["body"] == f"hello from {OTHER}"
    assert report["log"] == [[ADDRESSES[API], "connection"], [ADDRESSES[API], "request", OTHER]]


def test_x6_time_is_limited(outside: Call) -> None:
    slow = outside("raw", hosts=[API], sent=f"CONNECT {API}:443 HTTP/1.1\r\n", limits={"head_s": 0.1})
    assert slow["received"].startswith(f"HTTP/1.1 {ANSWERS[Refusal.TIME]}\r\n")
    assert slow["log"] == []
    hello = latin(hellos.real(API))
    for first in ("", hello[:50]):
        unsaid = outside("tunnel", hosts=[API], host=API, first=first, limits={"hello_s": 0.1})
        assert unsaid["received"] == latin(ALERT)
        assert unsaid["refused"] == {"time": 1}
    for limit in ("idle_s", "life_s"):
        assert outside("tunnel", hosts=[API], host=API, first=hello, limits={limit: 0.2})["refused"] == {"time": 1}


def test_x6_lookups_and_dialling_are_limited_in_time(tmp_path: Path) -> None:
    found = threading.Event()

    def hang(name: str) -> list[str]:
        found.wait(LIMIT)
        return ["93.184.216.34"]

    async def never(address: str, port: int) -> Any:
        await asyncio.Event().wait()

    def answer(proxy: FilteringProxy) -> tuple[bytes, dict[Refusal, int]]:
        with proxy, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LIMIT)
            connection.connect(str(proxy.path))
            connection.sendall(b"CONNECT api.example.com:443 HTTP/1.0\r\n\r\n")
            return connection.recv(12), dict(proxy.record().refusals)

    hosts = ["api.example.com"]
    slow_lookup = FilteringProxy(hosts, tmp_path, resolve=hang, limits=NetworkLimits(lookup_s=0.1))
    assert answer(slow_lookup) == (b"HTTP/1.1 504", {Refusal.TIME: 1})
    found.set()
    slow_host = FilteringProxy(hosts, tmp_path, resolve=hang, connect=never, limits=NetworkLimits(dial_s=0.1))
    assert answer(slow_host) == (b"HTTP/1.1 504", {Refusal.TIME: 1})


def test_x6_bytes_are_limited_over_all_tunnels(outside: Call) -> None:
    down = outside("fetch", hosts=[API], url=f"https://{API}/100000", times=3, limits={"down_bytes": 250_000})
    assert [len(answer) for answer in down["bodies"]] == [100_000, 100_000, 0]
    assert down["refused"] == {"bytes": 1}
    assert down["audit"]["hosts"][API]["down_bytes"] <= 250_000
    up = outside("fetch", hosts=[API], url=f"https://{API}/", post=100_000, limits={"up_bytes": 50_000})
    assert up["bodies"] == [""]
    assert up["refused"] == {"bytes": 1}
    assert up["audit"]["hosts"][API]["up_bytes"] <= 50_000
    none = outside("fetch", hosts=[API], url=f"https://{API}/", limits={"up_bytes": 10})
    assert none["refused"] == {"bytes": 1}
    assert none["log"] == [[ADDRESSES[API], "connection"]]


def test_x6_connections_are_limited(outside: Call) -> None:
    crowd = outside("crowd", hosts=[API], count=3, limits={"connections": 3})
    assert crowd["late"].startswith(f"HTTP/1.1 {ANSWERS[Refusal.CONNECTIONS]}\r\n")
    assert crowd["again"] == [f"hello from {API}", ""]
    assert crowd["refused"] == {"connections": 1}
    flood = outside("flood", hosts=[API], count=20, limits={"connections_in_all": 5})
    assert flood["refused"] == {"method": 5, "connections": 1}
    assert flood["taken"] == 6  # then nobody listens any more


def test_x6_a_run_that_ends_takes_its_tunnels_with_it(outside: Call) -> None:
    report = outside("leave_open", hosts=[API])
    assert report["connected"] == OK
    assert report["threads"] == []
    assert not report["socket_left"]


def test_x6_the_socket_is_its_owners_alone(tmp_path: Path) -> None:
    with FilteringProxy(["api.example.com"], tmp_path, owner=os.getuid()) as proxy:
        found = proxy.path.stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert found.st_uid == os.getuid()
    assert not proxy.path.exists()
    proxy.close()


def test_x6_a_socket_that_cannot_be_made_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as error:
        FilteringProxy([], tmp_path / ("x" * 100))
    assert error.value.code == "socket_path_too_long"
    with pytest.raises(InvalidInput, match="bad_network_host"):
        FilteringProxy(["*.example.com"], tmp_path)
    with pytest.raises(FileNotFoundError), FilteringProxy([], tmp_path / "none"):
        pass
    assert proxies._SHARED._loop is None


def test_x6_runs_do_not_share_what_is_theirs(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with FilteringProxy([], folders[0]) as first, FilteringProxy([], folders[1]) as second:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(first.path))
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 405"
        assert first.record().refusals == {Refusal.METHOD: 1}
        assert second.record().refusals == {}


def test_x6_a_name_is_looked_up_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def getaddrinfo(*arguments: Any, **more: Any) -> list[Any]:
        asked.append(arguments)
        return [(0, 0, 0, "", ("93.184.216.34", 443)), (0, 0, 0, "", ("93.184.216.34", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert look_up("api.example.com") == ["93.184.216.34"]
    assert asked == [("api.example.com.", 443)]  # never with a search domain
