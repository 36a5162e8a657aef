"""Where things are, read once at the edge: flags, then environment, then defaults."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

DATABASE_VARIABLE = "PROWESS_DB"
DEFAULT_TENANT = "default"


def data_directory() -> Path:
    """The per-user data folder, such as ``~/.local/share/prowess``."""
    return user_data_path("prowess", appauthor=False)


def database_url(given: str | None = None) -> str:
    """``given``, else ``PROWESS_DB``, else an SQLite file in the data folder, which is made if missing."""
    url = given or os.environ.get(DATABASE_VARIABLE)
    if url:
        return url
    folder = data_directory()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{folder / 'prowess.db'}"
