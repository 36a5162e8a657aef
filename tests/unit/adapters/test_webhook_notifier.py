"""The HTTP notifier against a real receiver: it waits for nobody, reads little, and connects to what it checked (B15, U7)."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from tests.support.receiver import Receiver, receiver

from prowess import DeliveryError, Denied, ManualClock
from prowess.adapters.notifiers.webhook import WebhookNotifier
from prowess.automation.notifications.addresses import Allowlist, Endpoint, read_url
from prowess.automation.notifications.model import Outgoing

SECRET = "whsec_" + base64.b64encode(bytes(range(100, 132))).decode()


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


def send(there: Receiver, clock: ManualClock, *, timeout: float = 10.0) -> None:
    notifier = WebhookNotifier(Allowlist.of([there.host]), timeout=timeout)
    notifier.send(read_url(there.url), Outgoing("n1", clock.now(), "{}"), SecretStr(SECRET))


def test_u7_a_receiver_that_does_not_answer_is_not_waited_for(there: Receiver, clock: ManualClock) -> None:
    there.hang = True
    with pytest.raises(DeliveryError) as failed:
        send(there, clock, timeout=0.2)
    assert (failed.value.code, failed.value.detail["cause"]) == ("delivery_failed", "timeout")


def test_the_body_of_an_answer_is_not_read(there: Receiver, clock: ManualClock) -> None:
    there.body = b"canary" * 1_000_000
    there.headers = {"content-length": "1000000000000"}
    send(there, clock)
    assert len(there.received) == 1
    there.status = 500
    with pytest.raises(DeliveryError):
        send(there, clock)


def test_a_head_of_an_answer_that_does_not_end_is_refused(there: Receiver, clock: ManualClock) -> None:
    there.headers = {"x-much": "a" * 1_000_000}
    with pytest.raises(DeliveryError) as failed:
        send(there, clock)
    assert failed.value.code == "delivery_failed"


def test_b15_a_name_that_answers_otherwise_the_next_moment_gains_nothing(there: Receiver, clock: ManualClock) -> None:
    asked: list[Endpoint] = []

    def rebinding(endpoint: Endpoint) -> list[str]:
        asked.append(endpoint)
        return ["93.184.215.14"] if len(asked) == 1 else ["127.0.0.1"]

    allowlist = Allowlist.of([f"hooks.example.com:{there.port}"])
    notifier = WebhookNotifier(allowlist, lookup=rebinding)
    url = read_url(f"https://hooks.example.com:{there.port}/")
    notifier.check(url)
    with pytest.raises(Denied) as refused:
        notifier.send(url, Outgoing("n1", clock.now(), "{}"), SecretStr(SECRET))
    assert refused.value.code == "address_not_allowed"
    assert len(asked) == 2, "one lookup for each"
    assert there.received == []


def test_b15_a_host_that_is_not_found_is_a_failure() -> None:
    def lookup(endpoint: Endpoint) -> list[str]:
        raise OSError("not found")

    notifier = WebhookNotifier(Allowlist.of(["hooks.example.com"]), lookup=lookup)
    with pytest.raises(DeliveryError) as failed:
        notifier.check(read_url("https://hooks.example.com/"))
    assert failed.value.detail == {"host": "hooks.example.com:443", "cause": "host_not_found"}
