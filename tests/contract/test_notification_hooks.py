"""Webhooks against a real receiver: signed, to allowed hosts alone, and honest about what came of it (B15, U7)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError
from tests.support.kit import OpenApp, places_of, rows
from tests.support.notices import emit
from tests.support.receiver import Receiver, receiver

from prowess import Conflict, DeliveryError, Denied, InvalidInput, LimitExceeded, ManualClock, NotFound, Prowess
from prowess.automation.notifications.model import Hook
from prowess.events.model import SYSTEM
from prowess.kernel.clock import SystemClock
from prowess.secrets.keys import KeyRing

SECRET = "whsec_" + base64.b64encode(bytes(range(100, 132))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(50, 90))).decode()


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def app(open_app: OpenApp, there: Receiver) -> Prowess:
    """With the receiver on the allowlist, and signing keys for a user and the tenant."""
    opened = open_app(outgoing_hosts=[there.host], secret_keys=KeyRing([bytes(range(32))]))
    opened.set_secret("HOOK_KEY", SECRET, user="ann")
    opened.set_secret("HOOK_KEY", OTHER)
    return opened


@pytest.fixture
def hook(app: Prowess, there: Receiver) -> Hook:
    return app.add_hook(there.url, secret="HOOK_KEY", user="ann")


def tell(app: Prowess, kind: str = "automation.proposed", **fields: Any) -> None:
    """An event of ann's, and its inbox entry."""
    emit(app._parts.database, app._parts.clock.now(), kind, **{"user_id": "ann", "target": "trigger-1", **fields})
    app.keep_notifications()


def deliveries(url: str) -> list[dict[str, Any]]:
    """The jobs that deliver, oldest first."""
    found = rows(url, "SELECT * FROM skill_background_jobs WHERE task = 'delivery' ORDER BY created_at, id")
    return [{**row, "payload": json.loads(row["payload"])} for row in found]


def deliver(app: Prowess, url: str) -> None:
    """What a worker does with the one job there is."""
    (job,) = deliveries(url)
    app._parts.hooks.deliver(job["payload"])


def end_job(app: Prowess, url: str, decision: str, code: str | None = None) -> None:
    """A worker notes how the latest delivery ended."""
    job = deliveries(url)[-1]
    with app._parts.log.transaction("default") as transaction:
        transaction.emit(
            "job.finished", tenant="default", actor=SYSTEM, user="ann", target=job["id"], decision=decision,  # type: ignore[arg-type]
            error_code=code,
        )  # fmt: skip
    app.keep_notifications()


def status(app: Prowess) -> str:
    (found,) = app.hooks(user="ann")
    return str(found.status)


def test_u7_a_notice_goes_out_signed_and_is_delivered_when_it_was_taken(
    open_app: OpenApp, app: Prowess, there: Receiver, hook: Hook, url: str
) -> None:
    app = open_app(  # receivers compare the time with their own
        outgoing_hosts=[there.host], secret_keys=KeyRing([bytes(range(32))]), clock=SystemClock()
    )
    tell(app)
    (job,) = deliveries(url)
    (entry,) = app.notifications(user="ann")
    assert job["payload"] == {"hook": hook.id, "notification": entry.id}
    assert (job["tenant"], job["user_id"], job["status"]) == ("default", "ann", "scheduled")
    assert rows(url, "SELECT * FROM notification_deliveries") == [
        {"job_id": job["id"], "notification_id": entry.id, "hook_id": hook.id}
    ]
    deliver(app, url)
    deliver(app, url)
    first, again = there.received
    assert first.path == "/hook?team=1"
    assert first.headers["host"] == there.host
    assert first.headers["webhook-id"] == again.headers["webhook-id"] == entry.id, "repeats can be told"
    document = Webhook(SECRET).verify(first.body, first.headers)
    assert document == {
        "type": "automation.proposed",
        "timestamp": entry.to_json()["created_at"],
        "data": {**entry.to_json(), "text": {"en": entry.text("en"), "zh": entry.text("zh")}},
    }
    for key, body in ((OTHER, first.body), (SECRET, first.body + b" ")):
        with pytest.raises(WebhookVerificationError):
            Webhook(key).verify(body, first.headers)
    end_job(app, url, "succeeded")
    assert rows(url, "SELECT * FROM notification_deliveries") == []
    assert status(app) == "active"
    assert [item.notice.kind for item in app.notifications(user="ann")] == ["automation.proposed"]


def test_u7_alerts_go_to_the_tenants_webhook_and_notices_to_their_owners(
    app: Prowess, there: Receiver, hook: Hook, url: str
) -> None:
    ours = app.add_hook(there.url, secret="HOOK_KEY", user=None, kinds=["incident.opened"])
    tell(app)
    tell(app, "incident.opened")
    tell(app, "approval.expired")
    tell(app, "incident.opened", tenant="other")
    tell(app, "automation.proposed", user_id="bob")
    sent = [(job["payload"]["hook"], job["payload"]["notification"]) for job in deliveries(url)]
    told = {
        row["id"]: (row["user_id"], row["kind"]) for row in rows(url, "SELECT id, user_id, kind FROM notifications")
    }
    assert sorted((one, *told[notification]) for one, notification in sent) == sorted(
        [
            (hook.id, "ann", "automation.proposed"),
            (hook.id, "ann", "incident.opened"),
            (ours.id, "", "incident.opened"),
            (hook.id, "ann", "approval.expired"),
        ]
    )
    assert {job["user_id"] for job in deliveries(url) if job["payload"]["hook"] == ours.id} == {"operator"}


@pytest.mark.parametrize("answer", [500, 301, 302, 304, 404])
def test_u7_anything_but_a_2xx_is_a_failure(answer: int, app: Prowess, there: Receiver, hook: Hook, url: str) -> None:
    there.status = answer
    there.headers = {"location": f"http://{there.host}/elsewhere", "content-length": "0"}
    tell(app)
    with pytest.raises(DeliveryError) as failed:
        deliver(app, url)
    assert (failed.value.code, failed.value.detail) == ("delivery_rejected", {"host": there.host, "status": answer})
    assert [one.path for one in there.received] == ["/hook?team=1"], "no redirect was followed"
    assert status(app) == "active", "the ledger tries again"


@pytest.mark.parametrize("answer", [200, 201, 202, 204])
def test_u7_each_2xx_is_success(answer: int, app: Prowess, there: Receiver, hook: Hook, url: str) -> None:
    there.status = answer
    tell(app)
    deliver(app, url)
    assert len(there.received) == 1


def test_u7_a_webhook_that_failed_for_good_is_an_alert_once_and_recovers(
    app: Prowess, there: Receiver, hook: Hook, url: str
) -> None:
    tell(app)
    end_job(app, url, "failed", "delivery_rejected")
    assert status(app) == "failing"
    told = [(item.notice.kind, item.notice.subject.hook, item.notice.subject.code) for item in app.alerts()]
    assert told == [("hook.failing", hook.id, "delivery_rejected")]
    assert [item.notice.kind for item in app.notifications(user="ann")] == ["hook.failing", "automation.proposed"]
    assert len(deliveries(url)) == 1, "what tells of a webhook's failure does not go out by it"

    tell(app)
    end_job(app, url, "failed", "delivery_rejected")
    assert len(deliveries(url)) == 2, "a failing one is tried with what comes next"
    assert len(app.alerts()) == 1, "one outage, one alert"

    tell(app)
    app._parts.hooks.deliver(deliveries(url)[-1]["payload"])
    assert status(app) == "active"
    log = [(event.type, event.decision, dict(event.data)) for event in app.audit() if event.target == hook.id]
    assert log == [
        ("notification_hook.recovered", None, {}),
        ("notification_hook.failing", None, {"error_code": "delivery_rejected"}),
        ("notification_hook.added", None, {"host": there.host}),
    ]


def test_u7_a_receiver_that_is_gone_pauses_its_webhook(app: Prowess, there: Receiver, hook: Hook, url: str) -> None:
    there.status = 410
    tell(app)
    for requests in (1, 1):
        with pytest.raises(Denied) as gone:
            deliver(app, url)
        assert (gone.value.code, status(app), len(there.received)) == ("hook_paused", "paused", requests)
    end_job(app, url, "failed", "hook_paused")
    assert status(app) == "paused"
    assert [item.notice.kind for item in app.alerts()] == ["hook.paused"]
    tell(app)
    assert len(deliveries(url)) == 1, "a paused one takes nothing"
    assert [item.notice.kind for item in app.notifications(user="ann")].count("automation.proposed") == 2

    with pytest.raises(Denied):
        app.test_hook(hook.id, user="ann")
    there.status = 200
    assert str(app.test_hook(hook.id, user="ann").status) == "active"
    assert json.loads(there.received[-1].body)["data"] == {
        "id": None,
        "kind": "hook.test",
        "text": {"en": "This is a test.", "zh": "这是一条测试。"},
    }


def test_u7_nobody_there_is_a_failure(open_app: OpenApp, app: Prowess, there: Receiver, hook: Hook) -> None:
    with receiver() as closed:
        free = closed.host
    app = open_app(outgoing_hosts=[there.host, free], secret_keys=KeyRing([bytes(range(32))]))
    gone = app.add_hook(f"http://{free}/", secret="HOOK_KEY", user="ann")
    with pytest.raises(DeliveryError) as failed:
        app.test_hook(gone.id, user="ann")
    assert (failed.value.code, failed.value.detail) == ("delivery_failed", {"host": free, "cause": "ConnectError"})


# --- making them -----------------------------------------------------------------------------------------------------


def test_b15_a_webhook_to_a_host_that_is_not_listed_is_refused(open_app: OpenApp, there: Receiver, url: str) -> None:
    for hosts in ((), ("hooks.example.com",), ("127.0.0.1:1",)):
        app = open_app(outgoing_hosts=hosts, secret_keys=KeyRing([bytes(range(32))]))
        with pytest.raises(Denied) as refused:
            app.add_hook(there.url, secret="HOOK_KEY", user="ann")
        assert refused.value.code == "host_not_allowed"
    assert rows(url, "SELECT * FROM notification_hooks") == []
    with pytest.raises(InvalidInput) as bad:
        open_app(outgoing_hosts=["https://x"])
    assert bad.value.code == "bad_outgoing_host"


def test_b15_a_host_that_was_taken_off_the_list_is_spoken_to_no_more(
    open_app: OpenApp, app: Prowess, there: Receiver, hook: Hook, url: str
) -> None:
    tell(app)
    closed = open_app(secret_keys=KeyRing([bytes(range(32))]))
    with pytest.raises(Denied) as refused:
        deliver(closed, url)
    assert refused.value.code == "host_not_allowed"
    assert there.received == []


def test_a_webhook_is_checked_when_it_is_made(app: Prowess, there: Receiver) -> None:
    app.set_secret("PLAIN", "Not-4-Key-at-all", user="ann")
    for changed, kind, code in (
        ({"url": "http://user:pw@" + there.host}, InvalidInput, "bad_hook_url"),
        ({"kinds": ["unheard.of"]}, InvalidInput, "bad_choice"),
        ({"kinds": ["hook.failing"]}, InvalidInput, "bad_choice"),
        ({"kinds": []}, InvalidInput, "bad_choice"),
        ({"secret": "lower"}, InvalidInput, "bad_secret_name"),
        ({"secret": "MISSING"}, NotFound, "secret_missing"),
        ({"secret": "PLAIN"}, InvalidInput, "bad_hook_secret"),
        ({"user": "bob"}, NotFound, "secret_missing"),
        ({"user": ""}, InvalidInput, "bad_id"),
    ):
        fields: dict[str, Any] = {"url": there.url, "secret": "HOOK_KEY", "user": "ann", **changed}
        with pytest.raises(kind) as refused:
            app.add_hook(fields.pop("url"), **fields)
        assert refused.value.code == code
        assert "{" not in refused.value.message() + refused.value.remedy("zh")
    assert app.hooks(user="ann") == []
    for _ in range(20):
        app.add_hook(there.url, secret="HOOK_KEY", user="ann")
    with pytest.raises(LimitExceeded):
        app.add_hook(there.url, secret="HOOK_KEY", user="ann")
    assert there.received == []


def test_a_webhook_is_its_owners(app: Prowess, there: Receiver, hook: Hook, url: str) -> None:
    ours = app.add_hook(there.url, secret="HOOK_KEY", user=None)
    assert app.hooks(user="ann") == [hook]
    assert app.hooks(user=None) == [ours]
    assert app.hooks(user="bob") == app.hooks(user="ann", tenant="other") == []
    for reader, tenant in (("bob", "default"), (None, "default"), ("ann", "other")):
        for use in (app.remove_hook, app.test_hook):
            with pytest.raises(NotFound) as refused:
                use(hook.id, user=reader, tenant=tenant)
            assert refused.value.code == "hook_not_found"
    tell(app)
    app.remove_hook(hook.id, user="ann")
    assert app.hooks(user="ann") == []
    with pytest.raises(NotFound) as refused:
        deliver(app, url)
    assert refused.value.code == "hook_not_found"
    end_job(app, url, "failed", "hook_not_found")
    assert app.alerts() == [], "whoever removes a webhook knows"


def test_u4_the_signing_key_stands_nowhere(app: Prowess, there: Receiver, hook: Hook, url: str) -> None:
    tell(app)
    deliver(app, url)
    assert SECRET not in there.received[0].body.decode() + str(there.received[0].headers)
    assert places_of(url, SECRET) == places_of(url, SECRET.removeprefix("whsec_")) == set()
    app.delete_secret("HOOK_KEY", user="ann")
    with pytest.raises(NotFound) as refused:
        deliver(app, url)
    assert refused.value.code == "secret_missing", "the tenant's own does not stand in"


def test_a_job_that_was_cancelled_is_forgotten(app: Prowess, hook: Hook, url: str) -> None:
    tell(app)
    (job,) = deliveries(url)
    app._parts.ledger.cancel("default", job["id"], actor=SYSTEM)
    with pytest.raises(Conflict):
        app._parts.ledger.cancel("default", job["id"], actor=SYSTEM)
    app.keep_notifications()
    assert rows(url, "SELECT * FROM notification_deliveries") == []
    assert status(app) == "active"


def test_u7_a_worker_delivers_retries_and_gives_up(
    app: Prowess, there: Receiver, hook: Hook, url: str, clock: ManualClock
) -> None:
    emit(app._parts.database, clock.now(), "automation.proposed", user_id="ann", target="trigger-1")
    assert app.work() == 1, "nobody looked into an inbox"
    (entry,) = app.notifications(user="ann")
    (job,) = app.jobs()
    assert (str(job.status), job.result, len(there.received)) == ("completed", entry.id, 1)

    there.status = 500
    emit(app._parts.database, clock.now(), "automation.proposed", user_id="ann", target="trigger-2")
    app.work(until=clock.now() + timedelta(hours=1))
    assert [(str(job.status), job.attempts, job.error_code) for job in app.jobs()] == [
        ("failed", 3, "delivery_rejected"),
        ("completed", 1, None),
    ]
    assert len({one.headers["webhook-id"] for one in there.received[1:]}) == 1
    assert len(there.received) == 4
    assert status(app) == "failing"
    assert [item.notice.kind for item in app.alerts()] == ["hook.failing"]
    assert rows(url, "SELECT * FROM notification_deliveries") == []

    there.status = 200
    emit(app._parts.database, clock.now(), "automation.proposed", user_id="ann", target="trigger-3")
    app.work()
    assert (status(app), len(there.received)) == ("active", 5)


def test_u7_a_worker_does_not_insist_where_a_receiver_is_gone(
    app: Prowess, there: Receiver, hook: Hook, clock: ManualClock
) -> None:
    there.status = 410
    emit(app._parts.database, clock.now(), "automation.proposed", user_id="ann", target="trigger-1")
    app.work(until=clock.now() + timedelta(hours=1))
    (job,) = app.jobs()
    assert (str(job.status), job.attempts, job.error_code) == ("failed", 1, "hook_paused")
    assert (status(app), len(there.received)) == ("paused", 1)
    assert [item.notice.kind for item in app.alerts()] == ["hook.paused"]


def test_a_worker_deletes_what_was_read_long_ago(app: Prowess, clock: ManualClock, url: str) -> None:
    emit(app._parts.database, clock.now(), "automation.proposed", user_id="ann", target="trigger-1")
    app.work()
    assert app.mark_read(user="ann") == 1
    clock.advance(timedelta(days=91))
    app.work()
    assert rows(url, "SELECT * FROM notifications") == []
