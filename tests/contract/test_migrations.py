"""The schema: migrated equals declared, and a database that is ahead is refused untouched."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text
from tests.support.kit import at_once, everything, execute, rows, turn

import prowess
from prowess.db.engine import Database
from prowess.db.metadata import metadata
from prowess.db.schema import HEAD, REVISIONS, check_schema, current_revision, migrate
from prowess.errors import StorageError


def test_revisions_equal_the_files() -> None:
    folder = files("prowess.db.migrations").joinpath("versions")
    found = sorted(entry.name for entry in folder.iterdir() if entry.name[:1].isdigit())
    assert [name[:4] for name in found] == list(REVISIONS)
    previous = None
    for name in found:
        source = folder.joinpath(name).read_text(encoding="utf-8")
        assert f'revision = "{name[:4]}"' in source
        assert f"down_revision = {previous!r}".replace("'", '"') in source
        previous = name[:4]
    assert REVISIONS[-1] == HEAD


def test_a_migrated_schema_equals_the_declared_one(database_url: str) -> None:
    database = Database(database_url)
    assert current_revision(database) is None
    assert not check_schema(database)
    assert migrate(database) == HEAD
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
        assert check_schema(database)
    database.close()


def test_a_migrated_schema_equals_a_fresh_one(database_url: str, new_twin: Callable[[], str]) -> None:
    """What Alembic does not compare: conditions of indexes, key columns, growing keys."""
    migrated, fresh = Database(database_url), Database(new_twin())
    migrate(migrated)
    with fresh.write() as connection:
        metadata.create_all(connection)
    with migrated.read() as one, fresh.read() as other:
        assert _shape(one) == _shape(other)
    migrated.close()
    fresh.close()


@pytest.fixture
def new_twin(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Callable[[], str]:
    """Another empty database of the same kind."""

    def make() -> str:
        if database_url.startswith("sqlite"):
            return f"sqlite:///{tmp_path / 'twin.db'}"
        block = request.getfixturevalue("new_database")()
        made: str = block.__enter__()
        request.addfinalizer(lambda: block.__exit__(None, None, None))
        return made

    return make


def _shape(connection: Connection) -> dict[str, object]:
    found = inspect(connection)
    shape: dict[str, object] = {}
    for table in sorted(set(found.get_table_names()) - {"alembic_version"}):
        columns = {
            column["name"]: (str(column["type"]), column["nullable"], column.get("autoincrement"))
            for column in found.get_columns(table)
        }
        indexes = {index["name"]: (index["column_names"], index["unique"]) for index in found.get_indexes(table)}
        unique = sorted(str(sorted(item.items(), key=str)) for item in found.get_unique_constraints(table))
        shape[table] = (columns, found.get_pk_constraint(table), indexes, unique)
    if connection.dialect.name == "sqlite":
        made = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))
    else:
        made = connection.execute(text("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"))
    shape["definitions"] = {name: sql for name, sql in made if name != "alembic_version_pkc"}
    return shape


def test_w3_one_live_session_a_chat_is_an_index(url: str) -> None:
    database = Database(url)
    with database.read() as connection:
        (index,) = [
            item
            for item in inspect(connection).get_indexes("skill_sessions")
            if item["name"] == "uq_skill_sessions_live"
        ]
    assert index["unique"]
    assert index["column_names"] == ["tenant", "user_id", "scope_type", "scope_id"]
    database.close()


def test_migrating_again_does_nothing(url: str) -> None:
    before = everything(url)
    database = Database(url)
    assert migrate(database) == migrate(database) == HEAD
    database.close()
    assert everything(url) == before


def test_several_that_start_at_once_migrate_once(database_url: str) -> None:
    def start() -> str:
        database = Database(database_url)
        try:
            return migrate(database)
        finally:
            database.close()

    assert at_once([start] * 6) == [HEAD] * 6
    assert rows(database_url, "SELECT version_num FROM alembic_version") == [{"version_num": HEAD}]


def test_u14_a_newer_database_is_refused_and_untouched(database_url: str) -> None:
    execute(
        database_url,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
        "INSERT INTO alembic_version VALUES ('9999')",
        "CREATE TABLE agents (id TEXT)",
    )
    before = _content(database_url)
    with pytest.raises(StorageError) as refused:
        prowess.open(database_url)
    assert refused.value.code == "database_newer"
    assert refused.value.detail == {"found": "9999", "known": HEAD}
    assert "Nothing was changed" in refused.value.remedy()
    assert _content(database_url) == before


def _content(url: str) -> object:
    if url.startswith("sqlite"):
        file = Path(url.removeprefix("sqlite:///"))
        return {entry.name: hashlib.sha256(entry.read_bytes()).hexdigest() for entry in file.parent.glob("prowess.db*")}
    tables = rows(url, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    return sorted(row["table_name"] for row in tables), rows(url, "SELECT * FROM alembic_version")


def test_u14_a_migration_that_dies_leaves_the_database_as_it_was(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(database_url, "CREATE TABLE turns (mine TEXT)", "INSERT INTO turns VALUES ('kept')")
    with pytest.raises(StorageError) as failed:
        prowess.open(database_url)
    assert failed.value.code == "database_unavailable"
    database = Database(database_url)
    with database.read() as connection:
        assert inspect(connection).get_table_names() == ["turns"]
    database.close()
    assert rows(database_url, "SELECT * FROM turns") == [{"mine": "kept"}]


def test_a_database_in_memory_serves(clock: prowess.ManualClock) -> None:
    with prowess.open("sqlite://", clock=clock) as app:
        assert turn(app, "m1", "hello").message_id == "m1"
        assert [message.author_kind for message in app.messages("c1")] == ["user", "agent"]


def test_sqlite_files_use_write_ahead_logging_and_full_sync(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    prowess.open(url).close()
    assert rows(url, "PRAGMA journal_mode") == [{"journal_mode": "wal"}]
    assert rows(url, "PRAGMA synchronous") == [{"synchronous": 2}]
    assert rows(url, "PRAGMA foreign_keys") == [{"foreign_keys": 1}]


@pytest.mark.parametrize(
    "address",
    ["", "mysql://root@localhost/db", "nonsense", "sqlite+aiosqlite:///x.db", "postgresql://host:port/db", "://"],
)
def test_an_address_that_cannot_be_one_is_refused(address: str) -> None:
    with pytest.raises(StorageError) as refused:
        prowess.open(address)
    assert refused.value.code == "database_url"


def test_a_file_that_cannot_be_opened_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "text.db").write_text("this was never a database\n" * 100)
    for name in ("folder.db", "text.db", "missing/folder/x.db"):
        with pytest.raises(StorageError) as refused:
            prowess.open(f"sqlite:///{tmp_path / name}")
        assert refused.value.code == "database_unavailable"
    assert (tmp_path / "text.db").read_text() == "this was never a database\n" * 100


def test_a_server_that_does_not_answer_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as refused:
        prowess.open(f"postgresql://nobody@/nothing?host={tmp_path}")
    assert refused.value.code == "database_unavailable"
    assert refused.value.detail == {"cause": "OperationalError"}
