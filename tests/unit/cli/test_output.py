"""One shape for answers and errors, in both languages, and nothing that a terminal would obey."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import Result

from prowess.cli import output
from prowess.cli.main import PLACES, app, build
from prowess.errors import InvalidInput

Run = Callable[..., Result]
GLOBAL = {"--db", "--json", "--lang", "--debug"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_takes_the_common_options_and_says_what_each_is(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    options = {option for parameter in command.params for option in parameter.opts}
    assert options >= GLOBAL
    assert [parameter.name for parameter in command.params if not parameter.help] == []
    # The list of commands cuts what is longer.
    assert len(command.help) <= 68, command.help


def test_the_commands_are_those_of_the_contract() -> None:
    skills = (
        "list|show|why|usage|add|remove|export|enable|disable|pin|unpin|check|install|keygen|sign|verify|lock|unlock"
        "|rollback|lockfile|diff|merge|installs list|installs show|installs check|installs approve|installs reject"
    )
    permissions = (
        "list grant revoke surface standing always-allow forget explain simulate test check-policy open close opened"
    )
    approvals = "list|show|approve|deny|cancel|approvers list|approvers add|approvers remove"
    roles = "list show set remove assign unassign members"
    assert {
        "turn", "select", "chat", "tour", "stop", "tasks list", "tasks show", "worker", "up", "migrate", "doctor", "eval", "bench",
        *(f"mounts {name}" for name in "add list show refresh approve override remove".split()),
        *(f"quotas {name}" for name in ("list", "set", "remove", "usage")),
        *(f"skills {name}" for name in skills.split("|")), "skills advisories show", "skills advisories update",
        "keys trust", "keys list", "keys revoke",
        *(f"permissions {name}" for name in permissions.split()),
        *(f"approvals {name}" for name in approvals.split("|")),
        *(f"roles {name}" for name in roles.split()),
        *(f"secrets {name}" for name in "new-key set list delete rotate".split()),
        "sandbox run", "sandbox test",
        "notifications list", "notifications read",
        *(f"notifications hooks {name}" for name in "add list remove test".split()),
        *(f"jobs {name}" for name in "list show add cancel".split()),
        "memory list", "memory add", "memory correct", "memory export", "memory delete",
        "sessions list", "sessions cancel", "runs list", "audit list", "audit alerts", "audit seal", "audit verify", "audit export", "agents list", "agents create", "agents design", *(f"automations {name}" for name in "list add show pause resume confirm reject remove fire dry-run history next".split()),
    } == {" ".join(path) for path in COMMANDS}  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"PROWESS_LANG": "zh"}, "zh"),
        ({"PROWESS_LANG": "en", "LC_ALL": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "zh_TW.UTF-8", "LANG": "en_US.UTF-8"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_is_that_of_the_first_who_names_one(
    environment: dict[str, str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in output.LANGUAGE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    output.set_language(None)
    assert output.language() == language


def test_the_language_may_be_given_before_and_after_the_command(run: Run) -> None:
    assert run("--lang", "zh", "turn", "--text", "").stderr.startswith("错误：")
    assert run("turn", "--text", "", "--lang", "zh").stderr.startswith("错误：")
    assert run("--lang", "zh", "turn", "--text", "", "--lang", "en").stderr.startswith("error: ")
    assert run("turn", "--text", "", "--lang", "fr").exit_code == 2
    assert run("--lang", "fr", "doctor").exit_code == 2


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert output.visible("a\x1b[31mred\x07\x9b\u202ecod.exe") == r"a\x1b[31mred\x07\x9b\u202ecod.exe"
    assert output.visible("two\r\nlines\tand a tab 中文") == "two\nlines\tand a tab 中文"
    assert output.visible("\rover") == r"\rover"


def test_tables_show_text_and_never_markup_or_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("text",), [("[red]x[/red]\x1b[2J",)], empty="")
    assert r"[red]x[/red]\x1b[2J" in capsys.readouterr().out


def test_an_error_says_where_unless_its_sentence_does(capsys: pytest.CaptureFixture[str]) -> None:
    output.set_language("en")
    output.report_error(InvalidInput("yaml_control", file="tea/SKILL.md", line=3, character="x"), as_json=False)
    output.report_error(InvalidInput("not_readable", file="tea", cause="gone"), as_json=False)
    printed = capsys.readouterr()
    assert printed.out == ""
    first, _, second, _ = printed.err.splitlines()
    assert first.startswith("error: tea/SKILL.md:3: ")
    assert second == "error: tea cannot be read: gone."


def raising(error: BaseException) -> Callable[..., None]:
    @output.command
    def command(as_json: bool = False) -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), output.INTERRUPTED),
        (RuntimeError("secret words"), output.FAILED),
        (OSError(28, "No space left on device"), output.FAILED),
        (InvalidInput("text_empty", field="text"), output.FAILED),
    ],
)
def test_every_end_has_its_code_and_none_a_traceback(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(output.DEBUG_VARIABLE, raising=False)
    output.set_debug(False)
    with pytest.raises(typer.Exit) as ended:
        raising(error)(as_json=False)
    assert ended.value.exit_code == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert "secret" not in printed.err


def test_an_unexpected_error_is_internal_and_its_traceback_only_for_who_asks(
    run: Run, error: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_url: str) -> str:
        raise ZeroDivisionError("never shown")

    monkeypatch.setattr("prowess.runtime.keeping.migrate_database", broken)
    found = error("migrate")
    assert (found["code"], found["detail"]) == ("internal", {"cause": "ZeroDivisionError"})
    for asked in (run("migrate", "--debug"), run("--debug", "migrate"), run("migrate", PROWESS_DEBUG="1")):
        assert "never shown" in asked.stderr
        assert asked.exit_code == 1
    assert "never shown" not in run("migrate", PROWESS_DEBUG="0").output


def test_what_the_system_refuses_names_the_place(error: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    found = error("memory", "list", PROWESS_DB="", XDG_DATA_HOME=str(blocked))
    assert found["code"] == "system_refused"
    assert found["detail"]["file"].startswith(str(blocked))


def test_a_closed_pipe_is_no_news(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    abandoned = []
    monkeypatch.setattr(output, "abandon_output", lambda: abandoned.append(True))
    with contextlib.suppress(typer.Exit):
        raising(BrokenPipeError())(as_json=True)
    assert abandoned == [True]
    assert capsys.readouterr() == ("", "")


def test_every_command_stands_where_its_name_says() -> None:
    def names(command: str) -> set[str]:
        return set(typer.main.get_command(build(command)).commands)  # type: ignore[attr-defined]

    for module, theirs in PLACES.items():
        assert names(theirs[0]) == set(theirs), module
    assert names("nothing of this name") == {name for theirs in PLACES.values() for name in theirs}
