"""Stop means stop, within this process: what of a turn runs here, and how it is told to end (U10).

A turn that another process stopped is found by looking: one thread asks the database four times a second, for as long
as a tool or a voice of any turn is busy here.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from prowess.access.approvals.model import TurnKey
from prowess.db.engine import Database
from prowess.errors import Conflict, ProwessError
from prowess.turns.definitions import CancelToken
from prowess.turns.request import TurnRequest
from prowess.turns.stopped import stopped_among

logger = logging.getLogger(__name__)

STOPPED = "turn_stopped"
LOOK_SECONDS = 0.25
"""how long a turn that was stopped elsewhere may go on unaware"""


def turn_key(request: TurnRequest) -> TurnKey:
    """The turn of a request."""
    return TurnKey(request.tenant, request.chat, request.message_id, request.agent)


def is_stop(error: Exception) -> bool:
    """Whether this error says that the turn was stopped."""
    return isinstance(error, Conflict) and error.code == STOPPED


class TurnStop:
    """Whether one turn was stopped, and what of it runs in this process. All plans of the turn share it."""

    def __init__(self, key: TurnKey, watch: Watch) -> None:
        self.key = key
        self._watch = watch
        self._changed = threading.Condition()
        self._stopped = False
        self._numbers = itertools.count()
        self._running: dict[int, tuple[str, CancelToken]] = {}
        self._listeners: dict[int, Callable[[], None]] = {}

    @property
    def stopped(self) -> bool:
        """Whether this process knows of it."""
        return self._stopped

    def check(self) -> None:
        """Raises ``Conflict('turn_stopped')`` once it is known."""
        if self._stopped:
            raise Conflict(STOPPED, message_id=self.key.message_id)

    def stop(self) -> None:
        """Tell everything of the turn that runs here. May be said again."""
        with self._changed:
            self._stopped = True
            tokens = [token for _, token in self._running.values()]
            listeners = list(self._listeners.values())
        for token in tokens:
            token.cancel()
        for listener in listeners:
            listener()

    def begin(self, name: str, token: CancelToken) -> Callable[[], None]:
        """Something runs now; returns what is to be called when it has really ended, from whichever thread."""
        with self._changed:
            number = next(self._numbers)
            self._running[number] = (name, token)
            if self._stopped:
                token.cancel()

        def ended() -> None:
            with self._changed:
                self._running.pop(number, None)
                self._changed.notify_all()

        return ended

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Have ``listener`` called once the turn is stopped, at once where it is; from any thread."""
        with self._changed:
            number = next(self._numbers)
            self._listeners[number] = listener
            told = self._stopped
        try:
            if told:
                listener()
            yield
        finally:
            with self._changed:
                del self._listeners[number]

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While this lasts, that another process stopped the turn is noticed."""
        with self._watch.watching(self):
            yield

    def running(self) -> tuple[str, ...]:
        """Names of what runs here at this moment."""
        with self._changed:
            return tuple(name for name, _ in self._running.values())

    def wait(self, seconds: float) -> bool:
        """Wait until nothing runs here any more; false where something still does after that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, max(0.0, seconds))


class Watch:
    """Looks for turns that were stopped elsewhere. Its thread begins with the first busy turn and rests without any."""

    def __init__(self, database: Database, seconds: float = LOOK_SECONDS) -> None:
        self._database = database
        self._seconds = seconds
        self._changed = threading.Condition()
        self._busy: dict[TurnStop, int] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def watching(self, stop: TurnStop) -> Iterator[None]:
        """Watch a turn for as long as this lasts."""
        with self._changed:
            self._busy[stop] = self._busy.get(stop, 0) + 1
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._look, name="prowess stops", daemon=True)
                self._thread.start()
            elif len(self._busy) == 1:
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._busy[stop] -= 1
                if not self._busy[stop]:
                    del self._busy[stop]

    def close(self) -> None:
        """Look no more; to be called before the database is closed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _look(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._busy))
                self._changed.wait_for(lambda: self._closed, self._seconds)
                if self._closed:
                    return
                watched = {stop.key: stop for stop in self._busy if not stop.stopped}
            for key in self._found(watched):
                watched[key].stop()

    def _found(self, keys: Iterable[TurnKey]) -> list[TurnKey]:
        wanted = list(keys)
        if not wanted:
            return []
        try:
            with self._database.read() as connection:
                return stopped_among(connection, wanted)
        except ProwessError as error:
            logger.warning("stopped turns could not be looked for: %s", error.code)
            return []


class Stops:
    """The turns of this process, for as long as anybody holds them."""

    def __init__(self, database: Database) -> None:
        self._watch = Watch(database)
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[TurnKey, TurnStop] = WeakValueDictionary()

    def of(self, request: TurnRequest) -> TurnStop:
        """The one that all plans of this turn share."""
        key = turn_key(request)
        with self._lock:
            found = self._turns.get(key)
            if found is None:
                found = self._turns[key] = TurnStop(key, self._watch)
            return found

    def known(self, keys: Iterable[TurnKey]) -> list[TurnStop]:
        """Those of these turns that are anybody's in this process."""
        with self._lock:
            return [stop for key in keys if (stop := self._turns.get(key)) is not None]

    def close(self) -> None:
        """Look for no more stops of other processes."""
        self._watch.close()
