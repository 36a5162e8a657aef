"""The documents tell the truth: every Python example and every shell example runs, in the order it stands on its page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = (
    "permissions",
    "models",
    "secrets",
    "approvals",
    "automations",
    "jobs",
    "notifications",
    "handing-over",
    "quotas",
    "sandbox",
    "skill-security",
    "scripts",
    "packages",
    "mcp",
)
"""pages that are there in both languages, with shell examples that run"""
TOLD = ("sandbox-network",)
"""pages in both languages without examples that run"""
OWN_PAGES = tuple(f"docs/{name}{language}.md" for name in OWN for language in ("", ".zh"))
PAGES = ("README.md", "README.zh.md", "docs/skills.md", *OWN_PAGES)
_FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^`(\S+)`[:：]\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def content(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def write_files(page: str, folder: Path) -> None:
    """The files that the page shows under their names."""
    for name, text in _FILE.findall(content(page)):
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(page, tmp_path)
    blocks = _FENCE.findall(content(page))
    assert blocks
    # The second example of a README goes on with the app of the first, after its block closed it.
    reopened = 'app = prowess.open("sqlite:///my.db")\n' if page.startswith("README") else ""
    names: dict[str, object] = {}
    for index, block in enumerate(blocks):
        exec(compile((reopened if index else "") + block, f"{page}#{index + 1}", "exec"), names)
    if page.startswith("README"):
        result = names["result"]
        assert ("pour-over" if page == "README.md" else "手冲") in result.reply  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", [f"docs/{name}.md" for name in OWN])  # the Chinese pages show the same (tested)
def test_shell_examples_run_as_one_script(page: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    command = tmp_path / "bin" / "prowess"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m prowess "$@"\n')
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PROWESS_", "OPENAI_"))}
    own = {
        "PATH": f"{command.parent}{os.pathsep}{kept['PATH']}",
        "PROWESS_DB": f"sqlite:///{tmp_path / 'docs.db'}",
        "PROWESS_LANG": "en",
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }
    script = "\n".join(_SHELL.findall(content(page)))
    assert "prowess" in script
    done = subprocess.run(
        ["/bin/sh", "-eux", "-c", script], cwd=tmp_path, env=kept | own, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", [*OWN, *TOLD])
def test_both_languages_show_the_same(name: str) -> None:
    english, chinese = content(f"docs/{name}.md"), content(f"docs/{name}.zh.md")

    def code(text: str) -> list[str]:
        # Comments and what is said follow the language of the page.
        blocks = (re.sub(r'#.*|"""[^"]*"""|--text "[^"]*"', "", block) for block in _CODE.findall(text))
        return [re.sub(r"[ \t]+\n", "\n", block) for block in blocks]

    assert code(english) == code(chinese)
    assert [line.count("#") for line in english.splitlines() if line.startswith("#")] == [
        line.count("#") for line in chinese.splitlines() if line.startswith("#")
    ]
    assert [line.count("|") for line in english.splitlines() if line.startswith("|")] == [
        line.count("|") for line in chinese.splitlines() if line.startswith("|")
    ]


def test_every_setting_of_the_environment_is_in_the_table_and_no_other() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    used = {name for source in sources for name in re.findall(r'"(PROWESS_[A-Z_]+)"', source)}
    told = re.findall(r"^\| `(PROWESS_[A-Z_]+)` \|", content("docs/contracts.md"), re.MULTILINE)
    assert sorted(told) == sorted(used)


def test_every_command_is_in_the_contract() -> None:
    import typer

    from prowess.cli.main import app

    contract = content("docs/contracts.md")
    group = typer.main.get_command(app)
    for name, found in group.commands.items():  # type: ignore[attr-defined]
        for leaf in getattr(found, "commands", {"": None}):
            words = re.findall(rf"`prowess [^`]*\b{re.escape(leaf or name)}(?![\w-])[^`]*`", contract)
            assert any(f"prowess {name}" in word for word in words), (name, leaf)


def test_the_methods_in_the_contract_are_there() -> None:
    from prowess import Prowess

    table = content("docs/contracts.md").partition("opens has:")[2]
    lists = re.findall(r"^\| [a-z ]+ \| (`.*) \|$", table, re.MULTILINE)
    told = [name for row in lists for name in re.findall(r"`(\w+)`", row.partition(";")[0])]
    assert len(told) > 50
    assert [name for name in told if not callable(getattr(Prowess, name, None))] == []
