"""A lock between processes and threads: ``flock`` on a file of its own.

Libraries for this poll; the kernel wakes a waiter at once, which is what keeps the longest wait short when several
processes share one SQLite file. The lock goes with the process, however it ends.
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

from prowess.errors import StorageError

if sys.platform != "win32":
    import fcntl


class FileLock:
    """Exclusive while entered. Each thread opens a description of its own, so threads exclude each other too.

    Where the platform has no ``flock`` it excludes threads only, and SQLite's own lock keeps processes apart.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._local = threading.local()
        self._threads = threading.Lock()

    def __enter__(self) -> None:
        if sys.platform == "win32":
            self._threads.acquire()
            return
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError("database_unavailable", cause=type(error).__name__) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        self._local.descriptor = descriptor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.platform == "win32":
            self._threads.release()
            return
        os.close(self._local.descriptor)
