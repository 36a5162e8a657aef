r"""Shell text cut into pipelines of simple commands (C40): quotes, escapes, expansions, substitutions, here-documents.

This reads what a shell would run; it runs nothing and expands nothing. Each word is kept as the shell would pass it
(``su\do`` and ``"su"do`` are ``sudo``); what only the run can know is marked by ``UNKNOWN`` in the word. Substitutions
are read as scripts of their own. One pass, linear in the length of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

UNKNOWN = "\ufffc"
"""Stands in a word for what is not known before the run"""
MAX_DEPTH = 12
MAX_COMMANDS = 20_000
MAX_VARIABLES = 1_000
MAX_VALUE = 1_000

_KEYWORDS = frozenset(
    "if then else elif fi do done while until for case esac in function { } ! time select coproc [[".split()
)
_BREAKS = frozenset({";", "&", "&&", "||", "\n", ";;", ";&", ";;&", "(", ")"})
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||[;&|()<>\n]")
_PLAIN = re.compile(r"[^\s;&|()<>\\\"'`$#{}]+")
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Command:
    """One simple command: words as passed, 1-based line, redirections ``(operator, target)``, assignments before it."""

    words: list[str]
    line: int
    redirects: list[tuple[str, str]] = field(default_factory=list)
    assigns: list[tuple[str, str]] = field(default_factory=list)
    inner: list[list[Command]] = field(default_factory=list)
    """pipelines inside its substitutions, ``$(…)``, `` `…` `` and ``<(…)``"""
    sources: str = ""
    """the raw texts of its variables, so that a flow can be followed: ``$NAME`` each"""
    document: str = ""
    """what is given to it as a here-document or here-string"""

    @property
    def text(self) -> str:
        """Words and redirections, to be shown and searched."""
        parts = [*(f"{name}={value}" for name, value in self.assigns), *self.words]
        parts += [f"{operator} {target}" for operator, target in self.redirects]
        return " ".join(parts)


Pipeline = list[Command]


def pipelines(text: str, line: int = 1, depth: int = 0, values: dict[str, str] | None = None) -> list[Pipeline]:
    """The pipelines of a script in the order of their text. Broken text yields what could be read.

    ``values`` holds what is known of its variables; the script's own assignments of plain text are added to it.
    """
    return _Reader(text, line, depth, {} if values is None else values).run()


class _Reader:
    def __init__(self, text: str, line: int, depth: int, values: dict[str, str]) -> None:
        self.text = text
        self.values = values
        self.at = 0
        self.line = line
        self.depth = depth
        self.done: list[Pipeline] = []
        self.pipe: Pipeline = []
        self.command = Command([], line)
        self.waiting: list[tuple[Command, str, bool]] = []
        self.count = 0

    def run(self) -> list[Pipeline]:
        while self.at < len(self.text) and self.count < MAX_COMMANDS:
            char = self.text[self.at]
            if char in " \t\r":
                self.at += 1
            elif char == "\\" and self.text[self.at + 1 : self.at + 2] == "\n":
                self.at += 2
                self.line += 1
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif (found := _OPERATOR.match(self.text, self.at)) is not None and not self._is_substitution(
                found.group()
            ):
                self._operator(found.group())
            else:
                self._take(*self._word())
        self._end_pipeline()
        return self.done

    def _is_substitution(self, operator: str) -> bool:
        return operator in ("<", ">") and self.text[self.at + 1 : self.at + 2] == "("

    def _operator(self, operator: str) -> None:
        self.at += len(operator)
        if operator in ("|", "|&"):
            self._end_command()
        elif operator in _BREAKS:
            self._end_pipeline()
            if operator == "\n":
                self.line += 1
                self._here_documents()
        else:
            self._redirect(operator)

    def _redirect(self, operator: str) -> None:
        if self.command.words and self.command.words[-1].isdigit() and self.text[self.at - len(operator) - 1].isdigit():
            self.command.words.pop()
        while self.text[self.at : self.at + 1] in (" ", "\t"):
            self.at += 1
        if self.at >= len(self.text) or self.text[self.at] == "\n":
            return
        word, _ = self._word()
        if operator in ("<<", "<<-"):
            self.waiting.append((self.command, word, operator == "<<-"))
        elif operator == "<<<":
            self.command.document += word + "\n"
        else:
            self.command.redirects.append((operator, word))

    def _here_documents(self) -> None:
        for command, mark, tabs in self.waiting:
            taken = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                row = self.text[self.at : end]
                self.at = end + 1
                self.line += 1
                if (row.lstrip("\t") if tabs else row).rstrip("\r") == mark:
                    break
                taken.append(row)
            command.document += "\n".join(taken)
        self.waiting = []
        self.at = min(self.at, len(self.text))

    def _take(self, word: str, quoted: bool) -> None:
        if not self.command.words:
            if not quoted and word in _KEYWORDS:
                if self.command.assigns:
                    self._end_command()
                return
            name, equals, value = word.partition("=")
            if equals and _NAME.fullmatch(name.removesuffix("+")):
                if not self.command.assigns:
                    self.command.line = self.line
                self._assign(name.removesuffix("+"), value, added=name.endswith("+"))
                return
            self.command.line = self.line
        self.command.words.append(word)

    def _assign(self, name: str, value: str, *, added: bool) -> None:
        self.command.assigns.append((name, value))
        if len(self.values) < MAX_VARIABLES and len(value) <= MAX_VALUE and UNKNOWN not in value and not added:
            self.values[name] = value
        else:
            self.values.pop(name, None)

    def _end_command(self) -> None:
        if self.command.words or self.command.assigns or self.command.redirects or self.command.inner:
            self.pipe.append(self.command)
            self.count += 1
        self.command = Command([], self.line)

    def _end_pipeline(self) -> None:
        self._end_command()
        if self.pipe:
            self.done.append(self.pipe)
        self.pipe = []

    def _word(self) -> tuple[str, bool]:
        parts: list[str] = []
        quoted = False
        start = self.at
        while self.at < len(self.text):
            found = _PLAIN.match(self.text, self.at)
            if found is not None:
                parts.append(found.group())
                self.at = found.end()
                continue
            char = self.text[self.at]
            if char in " \t\r\n;&|)":
                break
            if char in "<>(":
                if self.at > start or not self._is_substitution(char):
                    if char == "(" and parts and parts[-1].endswith("="):
                        self._array(parts)
                        continue
                    break
                self.at += 2
                parts.append(self._substitution(self._until_close()))
            elif char == "\\":
                follower = self.text[self.at + 1 : self.at + 2]
                self.line += follower == "\n"
                parts.append("" if follower == "\n" else follower)
                self.at += 2
            elif char == "'":
                quoted = True
                parts.append(self._single())
            elif char == '"':
                quoted = True
                self.at += 1
                self._double(parts)
            elif char in "$`":
                self._expansion(parts)
            else:
                parts.append(char)
                self.at += 1
        if self.at == start:
            self.at += 1
        return "".join(parts), quoted

    def _array(self, parts: list[str]) -> None:
        self.at += 1
        parts.append(self._until_close().strip())

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        self.line += inside.count("\n")
        return inside

    def _double(self, parts: list[str]) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            if char == "\\":
                follower = self.text[self.at + 1 : self.at + 2]
                self.line += follower == "\n"
                parts.append("" if follower == "\n" else follower if follower in '"\\$`' else "\\" + follower)
                self.at += 2
            elif char in "$`":
                self._expansion(parts)
            else:
                end = self.at + 1
                while end < len(self.text) and self.text[end] not in '"\\$`':
                    end += 1
                self.line += self.text.count("\n", self.at, end)
                parts.append(self.text[self.at : end])
                self.at = end

    def _expansion(self, parts: list[str]) -> None:
        if self.text[self.at] == "`":
            end = self.text.find("`", self.at + 1)
            end = len(self.text) if end < 0 else end
            inside = self.text[self.at + 1 : end]
            self.at = end + 1
            parts.append(self._substitution(inside))
            return
        follower = self.text[self.at + 1 : self.at + 2]
        if follower == "'":
            end = self.at + 2
            while end < len(self.text) and self.text[end] != "'":
                end += 2 if self.text[end] == "\\" else 1
            parts.append(_ANSI.sub(_unescape, self.text[self.at + 2 : end]))
            self.at = end + 1
        elif follower == "(":
            self.at += 2
            parts.append(self._substitution(self._until_close()))
        elif follower == "{":
            end = self.text.find("}", self.at)
            end = len(self.text) - 1 if end < 0 else end
            self._variable(self.text[self.at + 2 : end], parts)
            self.at = end + 1
        elif (found := _NAME.match(self.text, self.at + 1)) is not None:
            self._variable(found.group(), parts)
            self.at = found.end()
        else:
            parts.append("$" if not follower or follower in " \t\n\"'" else UNKNOWN)
            self.at += 1 if not follower or follower in " \t\n\"'" else 2

    def _variable(self, inside: str, parts: list[str]) -> None:
        found = _NAME.match(inside.lstrip("#!"))
        name = found.group() if found else ""
        if name == "IFS":
            parts.append(" ")
        elif name == "HOME":
            parts.append("~")
        elif name in self.values and inside in (name, name + "[@]"):
            parts.append(self.values[name])
        else:
            parts.append(UNKNOWN)
        self.command.sources += f" ${name}"

    def _until_close(self) -> str:
        """The text up to the parenthesis that closes the one just opened; quotes and escapes are respected."""
        start, level = self.at, 1
        quote = ""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "\\" and quote != "'":
                self.at += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char == "(":
                level += 1
            elif char == ")":
                level -= 1
                if level == 0:
                    break
            self.at += 1
        inside = self.text[start : self.at]
        self.at += 1
        return inside

    def _substitution(self, inside: str) -> str:
        if self.depth < MAX_DEPTH and not inside.startswith("("):
            found = pipelines(inside, self.line, self.depth + 1, self.values)
            self.command.inner.extend(found)
            echoed = _echoed(found)
            if echoed is not None:
                self.line += inside.count("\n")
                return echoed
        self.line += inside.count("\n")
        return UNKNOWN


def _echoed(found: list[Pipeline]) -> str | None:
    """What ``$(echo sudo)`` and ``$(printf su)`` stand for."""
    if len(found) == 1 and len(found[0]) == 1 and found[0][0].words[:1] in (["echo"], ["printf"]):
        words = [word for word in found[0][0].words[1:] if not word.startswith("-")]
        return " ".join(words)
    return None


def _unescape(found: re.Match[str]) -> str:
    body = found.group(1)
    try:
        if body[0] in "xuU":
            return chr(int(body[1:], 16))
        if body[0] in "01234567":
            return chr(int(body, 8) & 255)
    except (ValueError, OverflowError):
        return ""
    return {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b"}.get(body, body)
