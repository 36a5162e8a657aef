"""The sentences of the command line: the same in both languages, and none missing."""

from __future__ import annotations

import ast
import json
import string
from collections.abc import Iterator
from pathlib import Path

import prowess
from prowess.cli.chat import OWN_COMMANDS
from prowess.messages import catalogue
from prowess.turns.commands import command_names

HOME = Path(prowess.__file__).parent


def sentences(language: str) -> dict[str, str]:
    loaded: dict[str, str] = json.loads((HOME / "messages" / language / "cli.json").read_text(encoding="utf-8"))
    return loaded


def fields(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


def test_both_languages_have_the_same_keys_in_the_same_order_with_the_same_fields() -> None:
    english, chinese = sentences("en"), sentences("zh")
    assert list(english) == list(chinese)
    assert {key: fields(text) for key, text in english.items()} == {key: fields(text) for key, text in chinese.items()}
    assert [
        key for key in english if key.startswith("error.") and key.replace("error.", "remedy.") not in english
    ] == []


def spoken() -> Iterator[str]:
    """Every key that the code names outright, and the columns of its tables."""
    for file in sorted((HOME / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="say"), args=[ast.Constant(value=str(key)), *_]):
                    yield f"cli.{key}"
                case ast.Call(
                    func=ast.Name(id="InvalidInput" | "NotFound" | "ProwessError"),
                    args=[ast.Constant(value=str(code)), *_],
                ):
                    yield f"error.{code}"
                case (
                    ast.Call(func=ast.Name(id="print_table"), args=[ast.Tuple(elts=columns), *_])
                    | ast.Call(func=ast.Attribute(attr="_list"), args=[_, ast.Tuple(elts=columns), *_])
                ):
                    yield from (f"cli.column.{ast.literal_eval(column)}" for column in columns)


def test_every_sentence_that_the_code_names_is_there() -> None:
    named = set(spoken())
    assert {"cli.colon", "error.internal", "cli.column.meaning"} <= named
    assert sorted(named - catalogue("en").keys()) == []


def test_every_command_of_the_chat_says_what_it_does() -> None:
    wanted = {f"cli.chat.command.{name}" for name in (*command_names(), *OWN_COMMANDS)}
    assert wanted == {key for key in sentences("en") if key.startswith("cli.chat.command.")}
