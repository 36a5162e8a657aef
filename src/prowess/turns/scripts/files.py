"""The files of installed versions, read when a script is to run and kept while they are in use."""

from __future__ import annotations

import threading
from collections import OrderedDict

from prowess.db.engine import Database
from prowess.sandbox.model import MEBIBYTE, ScriptFile
from prowess.skills.store import skill_file_rows

MAX_KEPT = 32 * MEBIBYTE


class ScriptFiles:
    """A bounded cache by content digest: versions of one digest are one and the same (S7)."""

    def __init__(self, database: Database, limit: int = MAX_KEPT) -> None:
        """``limit``: bytes of all files that are kept."""
        self._database = database
        self._limit = limit
        self._kept: OrderedDict[str, tuple[ScriptFile, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, tenant: str, skill_id: str, version: str, digest: str) -> tuple[ScriptFile, ...]:
        """The files of a version, sorted by path; empty where it is gone."""
        with self._lock:
            found = self._kept.get(digest)
            if found is not None:
                self._kept.move_to_end(digest)
                return found
        with self._database.read() as connection:
            rows = skill_file_rows(connection, tenant, skill_id, version)
        files = tuple(ScriptFile(row.path, row.content, row.executable) for row in rows)
        self._keep(digest, files)
        return files

    def _keep(self, digest: str, files: tuple[ScriptFile, ...]) -> None:
        if _size(files) > self._limit:
            return
        with self._lock:
            if digest in self._kept:
                return
            self._kept[digest] = files
            self._bytes += _size(files)
            while self._bytes > self._limit:
                self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(files: tuple[ScriptFile, ...]) -> int:
    return sum(len(file.content) for file in files)
