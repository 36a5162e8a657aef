"""Watching what the active file triggers name, as one asynchronous task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from watchfiles import Change as Kinds
from watchfiles import awatch

from prowess.automation.triggers.firing import Firing, Occasion
from prowess.automation.triggers.model import Fire, Kind, Status, Trigger
from prowess.automation.triggers.specs import FileSpec, read_spec
from prowess.automation.triggers.store import active_triggers, find_trigger
from prowess.automation.watching.hold import WatchHold
from prowess.automation.watching.paths import Change, ChangeKind, Roots, batch_slot, describe
from prowess.errors import InvalidInput, StorageError
from prowess.events.log import EventLog

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 1.0
"""How soon a trigger that was made, changed or paused is noticed."""


class Watched(NamedTuple):
    """One trigger and where it looks."""

    trigger: Trigger
    spec: FileSpec
    root: Path
    path: Path


class FileWatcher:
    """Fires file triggers."""

    def __init__(self, log: EventLog, firing: Firing, roots: Roots, hold: WatchHold) -> None:
        self._log = log
        self._firing = firing
        self._roots = roots
        self._hold = hold

    async def watch(self, stop: asyncio.Event) -> None:
        """Until ``stop`` is set; of several processes on a machine one watches, and another takes over when it is gone.

        What is watched is read again whenever the set of active file triggers has changed.
        """
        try:
            while not stop.is_set():
                await self._watch_once(stop)
        finally:
            self._hold.leave()

    async def _watch_once(self, stop: asyncio.Event) -> None:
        """As long as the set stays the same and this process may watch."""
        try:
            watched = await asyncio.to_thread(self.watched) if await asyncio.to_thread(self._hold.holds) else None
        except StorageError as error:
            logger.warning("file triggers cannot be read: %s", error.code)
            watched = None
        if watched is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_AGAIN_S)
            return
        changed = asyncio.Event()
        ends = asyncio.create_task(_either(stop, changed))
        looks = asyncio.create_task(self._look_for_changes(watched, changed))
        try:
            await self._follow(watched, changed, ends)
        finally:
            for task in (ends, looks):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def watched(self) -> list[Watched]:
        """The active file triggers whose paths may be watched and are there."""
        with self._log.database.read() as connection:
            triggers = active_triggers(connection, Kind.FILE)
        found: list[Watched] = []
        for trigger in triggers:
            try:
                spec = read_spec(trigger.kind, trigger.spec)
                assert isinstance(spec, FileSpec)
                found.append(Watched(trigger, spec, *self._roots.resolve(spec.path)))
            except InvalidInput as error:
                logger.warning("trigger %s is not watched: %s", trigger.id, error.code)
        return found

    def notice(self, watched: Watched, changes: Sequence[Change]) -> Fire | None:
        """Fire for what changed below the path of one trigger; null where it has, or where nothing concerns it."""
        concerned = [
            change
            for change in changes
            if change.kind in watched.spec.changes and change.path.is_relative_to(watched.path)
        ]
        if not concerned:
            return None
        occasion = Occasion(slot=batch_slot(concerned), source="file", data=describe(watched.root, concerned))
        with self._log.transaction(watched.trigger.tenant) as transaction:
            trigger = find_trigger(transaction.connection, watched.trigger.id)
            if trigger is None or trigger.status is not Status.ACTIVE or trigger.spec != watched.trigger.spec:
                return None
            fire = self._firing.fire(transaction, trigger, occasion)
        self._firing.announce([fire])
        return fire

    async def _follow(self, watched: list[Watched], changed: asyncio.Event, ends: asyncio.Task[None]) -> None:
        if not watched:
            await ends
            return
        ended = asyncio.Event()
        ends.add_done_callback(lambda _: ended.set())
        paths = {item.path for item in watched}
        # A path that is gone by now ends this at once; the set is read again a moment later.
        with contextlib.suppress(FileNotFoundError):
            async for batch in awatch(*paths, stop_event=ended, watch_filter=None, ignore_permission_denied=True):
                changes = [Change(Path(path), _KINDS[kind]) for kind, path in batch]
                for item in watched:
                    await asyncio.to_thread(self.notice, item, changes)
        await ends

    async def _look_for_changes(self, watched: list[Watched], changed: asyncio.Event) -> None:
        known = _marks(watched)
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            try:
                held = await asyncio.to_thread(self._hold.holds)
                found = _marks(await asyncio.to_thread(self.watched))
            except StorageError:
                held, found = False, set()  # read again from the start, where it is logged
            if not held or found != known:
                changed.set()
                return


_KINDS: Mapping[Kinds, ChangeKind] = {Kinds.added: "added", Kinds.modified: "modified", Kinds.deleted: "deleted"}


def _marks(watched: list[Watched]) -> set[tuple[str, int, Path]]:
    return {(item.trigger.id, item.trigger.revision, item.path) for item in watched}


async def _either(one: asyncio.Event, other: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in (one, other)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
