"""Triggers that fire when files change, over real files (B2, B15)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.automation import add, events, jobs
from tests.support.kit import LIMIT, OpenApp

from prowess import InvalidInput, ManualClock, Prowess
from prowess.automation.triggers.model import Trigger
from prowess.automation.watching.hold import HOLD
from prowess.automation.watching.paths import Change, Roots, batch_slot
from prowess.automation.watching.service import FileWatcher


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "watched"
    (folder / "inbox").mkdir(parents=True)
    return folder


@pytest.fixture
def app(open_app: OpenApp, root: Path) -> Prowess:
    return open_app(watch_roots=[root])


def watch(app: Prowess, path: str = "inbox", **spec: Any) -> Trigger:
    return add(app, "file", {"path": path, **spec}, prompt="Read what is new.")


def watcher(app: Prowess) -> FileWatcher:
    parts = app._parts
    return FileWatcher(parts.log, parts.automations.firing, parts.automations.roots, parts.automations.watch)


@pytest.mark.parametrize("path", ["..", "inbox/../..", "/etc", "nowhere", "a\0b", "link"])
def test_only_what_lies_below_a_root_of_the_operator_is_watched(app: Prowess, root: Path, path: str) -> None:
    (root / "link").symlink_to("/etc")
    with pytest.raises(InvalidInput, match="watch_path_outside"):
        watch(app, path)
    assert app.automations() == []
    assert watch(app, "inbox").kind == "file"
    assert watch(app, str(root / "inbox")).kind == "file"


def test_roots_are_folders_and_never_the_whole_machine(tmp_path: Path) -> None:
    for unusable in ("/", tmp_path / "none"):
        with pytest.raises(InvalidInput, match="watch_root_unusable"):
            Roots([unusable])


def test_b12_the_same_change_fires_once_and_another_again(app: Prowess, root: Path, url: str) -> None:
    watch(app)
    [watched] = watcher(app).watched()
    file = root / "inbox" / "a.txt"
    file.write_text("one")
    changes = [Change(file, "added")]
    assert watcher(app).notice(watched, changes) is not None
    assert watcher(app).notice(watched, changes) is None
    assert batch_slot(changes) != batch_slot([Change(file, "modified")])
    file.write_text("one and more")
    assert watcher(app).notice(watched, changes) is not None
    data = json.loads(jobs(url)[0]["payload"]["data"])
    assert data == {"changes": [{"path": "inbox/a.txt", "change": "added"}], "total": 1}
    assert jobs(url)[0]["payload"]["source"] == "file"
    assert len(jobs(url)) == 2
    assert not any("a.txt" in json.dumps(event) for event in events(app, "automation.triggered"))


def test_what_does_not_concern_it_makes_no_fire(app: Prowess, root: Path, url: str) -> None:
    trigger = watch(app, changes=["deleted"])
    [watched] = watcher(app).watched()
    assert watcher(app).notice(watched, [Change(root / "inbox" / "a", "added")]) is None
    assert watcher(app).notice(watched, [Change(root / "other" / "a", "deleted")]) is None
    many = [Change(root / "inbox" / f"file {number:03}\x85", "deleted") for number in range(150)]
    assert watcher(app).notice(watched, many) is not None
    [job] = jobs(url)
    data = json.loads(job["payload"]["data"])
    assert (len(data["changes"]), data["total"]) == (100, 150)
    assert data["changes"][0]["path"] == "inbox/file 000\\x85"
    app.pause_automation(trigger.id)
    assert watcher(app).notice(watched, [Change(root / "inbox" / "b", "deleted")]) is None


def test_files_that_change_are_noticed_and_triggers_that_come_later_too(app: Prowess, root: Path, url: str) -> None:
    async def until(holds: Callable[[], bool], write: Callable[[int], object]) -> None:
        """Write again and again, each time another file: the watch of a new trigger begins at its own time."""
        async with asyncio.timeout(LIMIT):
            number = 0
            while not await asyncio.to_thread(holds):
                write(number)
                number += 1
                await asyncio.sleep(0.1)

    async def story() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(app.watch_files(stop))
        first = await asyncio.to_thread(watch, app)
        await until(lambda: bool(jobs(url, first.id)), lambda n: (root / "inbox" / f"new {n}.txt").write_text("x"))
        (root / "later").mkdir()
        second = await asyncio.to_thread(watch, app, "later")
        await until(lambda: bool(jobs(url, second.id)), lambda n: (root / "later" / f"new {n}.txt").write_text("x"))
        stop.set()
        await asyncio.wait_for(task, LIMIT)

    asyncio.run(story())
    paths = {change["path"] for job in jobs(url) for change in json.loads(job["payload"]["data"])["changes"]}
    assert any(path.startswith("inbox/new ") for path in paths)
    assert any(path.startswith("later/new ") for path in paths)


def test_watching_nothing_ends_when_it_is_told(app: Prowess) -> None:
    async def story() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(app.watch_files(stop))
        await asyncio.sleep(0)
        stop.set()
        await asyncio.wait_for(task, LIMIT)

    asyncio.run(story())


def test_b12_on_one_machine_one_process_watches_and_another_takes_over(
    open_app: OpenApp, root: Path, clock: ManualClock
) -> None:
    apps = [open_app(watch_roots=[root]) for _ in range(2)]
    first, second = (app._parts.automations.watch for app in apps)
    assert (first.holds(), second.holds(), first.holds()) == (True, False, True)
    clock.advance(HOLD - timedelta(milliseconds=1))
    assert not second.holds()
    clock.advance(timedelta(milliseconds=1))
    assert (second.holds(), first.holds()) == (True, False)

    async def leave() -> None:
        stop = asyncio.Event()
        stop.set()
        await watcher(apps[1]).watch(stop)

    asyncio.run(leave())
    assert first.holds()
