"""``prowess up`` and ``prowess worker`` as processes of their own, told to stop by a signal."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook
from tests.e2e.test_cli import own_environment
from tests.support.automation import add
from tests.support.kit import AGENT, LIMIT, USER

import prowess
from prowess import Prowess
from prowess.secrets.keys import new_key_file

SECRET = "whsec_" + base64.b64encode(b"a secret for the end to end test").decode()


class Service:
    """A command that runs until it is told to stop; its first line says where it is."""

    def __init__(self, environment: dict[str, str], *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "prowess", *args, "--json"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.told: dict[str, Any] = json.loads(self.process.stdout.readline())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, errors


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'up.db'}"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    new_key_file(file)
    return file


@pytest.fixture
def start(url: str, key: Path) -> Iterator[Callable[..., Service]]:
    environment = own_environment(url) | {"PROWESS_SECRET_KEY_FILE": str(key)}
    started: list[Service] = []

    def run(*args: str) -> Service:
        started.append(Service(environment, *args))
        return started[-1]

    yield run
    for service in started:
        if service.process.poll() is None:
            service.process.kill()
            service.process.communicate(timeout=LIMIT)


@pytest.fixture
def app(url: str, key: Path) -> Iterator[Prowess]:
    with prowess.open(url, secret_keys=key) as opened:
        yield opened


def wait_for(holds: Callable[[], Any]) -> None:
    pause, deadline = threading.Event(), time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.05)


def test_b2_b18_a_signed_request_to_prowess_up_becomes_a_turn(app: Prowess, start: Callable[..., Service]) -> None:
    app.set_secret("HOOK", SECRET, user=USER)
    hook = add(app, "webhook", {"scheme": "standard", "secrets": ["HOOK"]}, prompt="Look at this order.")
    service = start("up", "--port", "0")
    assert service.told["engine"] == "embedded"
    body, now = b'{"order": 17}', datetime.now(UTC)
    headers = {
        "webhook-id": "d1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("d1", now, body.decode()),
    }
    address = f"{service.told['hooks']}{hook.id}"
    assert httpx.post(address, content=body, headers=headers).status_code == 202
    assert httpx.post(address, content=body, headers=headers).json() == {"status": "duplicate"}
    forged = httpx.post(address, content=b'{"order": 18}', headers=headers)
    assert (forged.status_code, forged.json()["error"]["code"]) == (404, "webhook_not_found")
    wait_for(lambda: [str(job.status) for job in app.jobs(trigger=hook.id)] == ["completed"])
    (job,) = app.jobs(trigger=hook.id)
    assert job.chat is not None
    asked, answered = app.messages(job.chat.id)
    assert (asked.author_kind, answered.author_kind) == ("trigger", "agent")
    assert '{"order": 17}' in asked.text
    code, errors = service.stop()
    assert code == 0
    assert errors.splitlines()[-1] == "Stopped."


def test_b10_a_job_of_another_process_is_started_within_a_second_or_two(
    app: Prowess, start: Callable[..., Service]
) -> None:
    service = start("worker")
    assert service.told == {"engine": "embedded", "database": "sqlite"}
    trigger = add(app, "once", {"at": (datetime.now(UTC) + timedelta(seconds=2)).isoformat()}, prompt="Tell me.")
    wait_for(lambda: [str(job.status) for job in app.jobs(trigger=trigger.id)] == ["completed"])
    (fire,) = app.automation_history(trigger.id)
    (job,) = app.jobs(trigger=trigger.id)
    assert fire.planned is not None
    assert job.started_at is not None
    assert timedelta(0) <= job.started_at - fire.planned < timedelta(seconds=10)
    assert job.agent == AGENT
    assert service.stop(signal.SIGINT)[0] == 0
