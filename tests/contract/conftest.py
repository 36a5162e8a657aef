"""Databases that are set up already: a copy each, because migrating anew for every test would take most of the run."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.kit import OpenApp, ScriptedVoice

import prowess
from prowess import Prowess
from prowess.db.engine import Database
from prowess.db.schema import migrate
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds

_TEMPLATE = "prowess_template"
_numbers = itertools.count(1)


def _migrate(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file at the current schema."""
    file = tmp_path_factory.mktemp("template") / "prowess.db"
    _migrate(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="session")
def copy_of_postgres_template(postgres_url: str) -> Callable[[str], str]:
    """Makes a PostgreSQL database at the current schema under a name; returns its URL."""
    server = postgres_url.replace("+psycopg", "")

    def make(name: str, template: str = _TEMPLATE) -> str:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return postgres_url.replace("/postgres?", f"/{name}?")

    _migrate(make(_TEMPLATE, "template1"))
    return make


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh database of each kind, at the current schema."""
    if request.param == "sqlite":
        file = tmp_path / "prowess.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), file)
        yield f"sqlite:///{file}"
        return
    make: Callable[[str], str] = request.getfixturevalue("copy_of_postgres_template")
    name = f"contract_{next(_numbers)}"
    yield make(name)
    server: str = request.getfixturevalue("postgres_url").replace("+psycopg", "")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def open_app(url: str, clock: ManualClock, ids: SequentialIds) -> Iterator[OpenApp]:
    """Opens the test's database with skills of its own; any number of times, as several processes would."""
    opened: list[Prowess] = []

    def open_one(
        *skills: prowess.PromptSkill | prowess.WorkflowSkill | prowess.ToolSkill, **options: object
    ) -> Prowess:
        given: dict[str, object] = {"voice": ScriptedVoice(), "clock": clock, "ids": ids, **options}
        opened.append(prowess.open(url, skills=skills, **given))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for app in opened:
        app.close()


@pytest.fixture
def app(open_app: OpenApp) -> Prowess:
    """The runtime with built-in skills only."""
    return open_app()
