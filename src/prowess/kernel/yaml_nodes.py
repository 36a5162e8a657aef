"""YAML as data and nothing else: nodes that keep their source text and line (S2, C06, C12).

The events of libyaml (or of the pure parser, where libyaml is missing) are put together here rather than by a YAML
constructor, for what skill files need and constructors do not give:

- every key and value knows its line, and a key that stands twice is refused naming both lines;
- a scalar keeps its source text, so ``version: 1.10`` and ``author: on`` read as written;
- tags of other programs, merge keys and recursive aliases are refused, aliases are counted, and the *expanded* number
  of nodes is bounded before anything is expanded.

Core schema, where a field is not text: ``null``, ``~`` and nothing at all are null; ``true`` and ``false`` (also
capitalised) are booleans; decimal integers and floats without leading zeros are numbers; all else is text. There are
no dates, no ``yes`` and ``no``, no octal and no sexagesimal numbers.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple, TypeAlias

import yaml

MAX_ALIASES = 16
MAX_DEPTH = 40
MAX_NODES = 50_000
MAX_KEY_LENGTH = 200

CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
"""What YAML does not print, NEL excepted"""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset({"!", *(_CORE + kind for kind in ("str", "int", "float", "bool", "null"))})
_COLLECTION_TAGS = frozenset({"!", _CORE + "map", _CORE + "seq"})
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_NUMBER_START = frozenset("0123456789+-.")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,399})", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_OLD_BREAKS = "\x85\u2028\u2029"
"""Line breaks of YAML 1.1, plain characters of YAML 1.2; the parser knows the former only"""


class Scalar(NamedTuple):
    """A scalar: its text, its 1-based line, and whether it was neither quoted nor a block."""

    text: str
    line: int
    plain: bool


class Sequence(NamedTuple):
    """A sequence and the 1-based line it starts on."""

    items: list[Node]
    line: int


class Entry(NamedTuple):
    """A value of a mapping and the 1-based line of its key."""

    line: int
    node: Node


class Mapping(NamedTuple):
    """A mapping in the order of the file, and the 1-based line it starts on."""

    entries: dict[str, Entry]
    line: int


Node: TypeAlias = Scalar | Sequence | Mapping


class YamlFault(Exception):
    """YAML that is not accepted: a stable ``code``, the 1-based ``line``, fields for the sentence.

    ``suspects`` are the 1-based lines where the cause may stand, likeliest first; empty where quoting cannot help.
    """

    def __init__(self, code: str, line: int, *, suspects: tuple[int, ...] = (), **detail: Any) -> None:
        super().__init__(code)
        self.code = code
        self.line = line
        self.suspects = suspects
        self.detail = detail


def compose(text: str, first_line: int = 1) -> Node | None:
    """The one document in ``text``, or ``None`` where there is none.

    ``first_line`` is the 1-based line of the file on which ``text`` starts. Raises ``YamlFault`` (``yaml_broken``,
    ``yaml_control``, ``yaml_tag``, ``yaml_alias``, ``yaml_too_deep``, ``yaml_too_large``, ``yaml_too_many_aliases``,
    ``yaml_key``, ``key_twice``, ``yaml_merge``, ``yaml_documents``).
    """
    if found := CONTROL.search(text):
        line = first_line + text.count("\n", 0, found.start())
        raise YamlFault("yaml_control", line, character=ascii(found.group()).strip("'"))
    text, restore = _hide_old_breaks(text)
    loader = _LOADER(text)
    try:
        return _Builder(first_line, restore).build(loader)
    except yaml.MarkedYAMLError as error:
        raise _broken(error, first_line) from None
    except yaml.YAMLError as error:
        raise YamlFault("yaml_broken", first_line, problem=str(error).splitlines()[0]) from None
    finally:
        loader.dispose()


def is_null(node: Node) -> bool:
    """Whether the value is absent: ``null``, ``~`` or nothing, unquoted."""
    return isinstance(node, Scalar) and node.plain and node.text in _NULLS


def text_of(node: Node) -> str | None:
    """The source text of a scalar; ``None`` for null and for collections."""
    return node.text if isinstance(node, Scalar) and not is_null(node) else None


def value_of(node: Node) -> Any:
    """The JSON value by the core schema."""
    return _json(node, exact=False)


def verbatim(node: Node) -> Any:
    """The JSON value in which a number stands only where its text comes back unchanged (``1.10`` stays text)."""
    return _json(node, exact=True)


def _json(node: Node, exact: bool) -> Any:
    if isinstance(node, Scalar):
        return _scalar(node.text, exact) if node.plain else node.text
    if isinstance(node, Sequence):
        return [_json(item, exact) for item in node.items]
    return {key: _json(entry.node, exact) for key, entry in node.entries.items()}


def _scalar(text: str, exact: bool) -> Any:
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] in _NUMBER_START:
        return _number(text, exact)
    return text


def _number(text: str, exact: bool) -> Any:
    number: int | float
    if _INTEGER.fullmatch(text):
        number = int(text)
    elif _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            return text
    else:
        return text
    return text if exact and repr(number) != text else number


def _broken(error: yaml.MarkedYAMLError, first_line: int) -> YamlFault:
    marks = [mark.line for mark in (error.problem_mark, error.context_mark) if mark is not None]
    suspects = tuple(dict.fromkeys(first_line + line for line in marks))
    line = suspects[0] if suspects else first_line
    if str(error.problem).startswith("found unexpected end of stream"):
        line = suspects[-1]
    return YamlFault("yaml_broken", line, suspects=suspects, problem=str(error.problem))


def _hide_old_breaks(text: str) -> tuple[str, dict[int, str]]:
    """Swap the old line breaks for private characters that do not occur, and say how to swap them back."""
    present = [character for character in _OLD_BREAKS if character in text]
    if not present:
        return text, {}
    free = (code for code in range(0xE000, 0xF8FF) if chr(code) not in text)
    swap = {ord(character): code for character, code in zip(present, free, strict=False)}
    return text.translate(swap), {code: chr(character) for character, code in swap.items()}


class _Frame:
    """An open collection: its parts so far, and what is needed to judge aliases to it."""

    __slots__ = ("anchor", "container", "height", "key", "line", "start")

    def __init__(self, container: dict[str, Entry] | list[Node], line: int, anchor: str | None, start: int) -> None:
        self.container = container
        self.line = line
        self.anchor = anchor
        self.start = start
        self.key: Scalar | None = None
        self.height = 1


class _Builder:
    """Puts events together, without recursion."""

    def __init__(self, first_line: int, restore: dict[int, str]) -> None:
        self._first = first_line
        self._restore = restore
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Node, int, int]] = {}
        self._aliases = 0
        self._nodes = 0
        self._documents = 0
        self._root: Node | None = None

    def build(self, loader: Any) -> Node | None:
        """Read all events; the root node, if any."""
        handlers = {
            yaml.ScalarEvent: self._on_scalar,
            yaml.MappingStartEvent: self._on_start,
            yaml.SequenceStartEvent: self._on_start,
            yaml.MappingEndEvent: self._on_end,
            yaml.SequenceEndEvent: self._on_end,
            yaml.AliasEvent: self._on_alias,
            yaml.DocumentStartEvent: self._on_document,
        }
        while (event := loader.get_event()) is not None:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
        return self._root

    def _line(self, event: Any) -> int:
        return self._first + int(event.start_mark.line)

    def _on_document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise YamlFault("yaml_documents", self._line(event))

    def _on_scalar(self, event: Any) -> None:
        line = self._line(event)
        self._check_tag(event, line, _SCALAR_TAGS)
        text: str = event.value
        if event.style == '"' and (found := CONTROL.search(text)):
            raise YamlFault("yaml_control", line, character=ascii(found.group()).strip("'"))
        if self._restore:
            text = text.translate(self._restore)
        node = Scalar(text, line, event.implicit[0])
        self._count(1, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, 1, 0)
        self._add(node, 0)

    def _on_start(self, event: Any) -> None:
        line = self._line(event)
        self._check_tag(event, line, _COLLECTION_TAGS)
        if len(self._stack) >= MAX_DEPTH:
            raise YamlFault("yaml_too_deep", line, limit=MAX_DEPTH)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)
        container: dict[str, Entry] | list[Node] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._stack.append(_Frame(container, line, event.anchor, self._nodes))
        self._count(1, line)

    def _on_end(self, _event: Any) -> None:
        frame = self._stack.pop()
        container = frame.container
        node: Node = Mapping(container, frame.line) if isinstance(container, dict) else Sequence(container, frame.line)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (node, self._nodes - frame.start, frame.height)
        self._add(node, frame.height)

    def _on_alias(self, event: Any) -> None:
        line = self._line(event)
        self._aliases += 1
        known = self._anchors.get(event.anchor)
        if known is None:
            endless = any(frame.anchor == event.anchor for frame in self._stack)
            raise YamlFault("yaml_alias", line, suspects=() if endless else (line,), name=event.anchor)
        node, size, height = known
        if self._aliases > MAX_ALIASES:
            raise YamlFault("yaml_too_many_aliases", line, limit=MAX_ALIASES)
        if len(self._stack) + height > MAX_DEPTH:
            raise YamlFault("yaml_too_deep", line, limit=MAX_DEPTH)
        self._count(size, line)
        self._add(node, height)

    def _count(self, number: int, line: int) -> None:
        self._nodes += number
        if self._nodes > MAX_NODES:
            raise YamlFault("yaml_too_large", line, limit=MAX_NODES)

    @staticmethod
    def _check_tag(event: Any, line: int, known: frozenset[str]) -> None:
        if event.tag is not None and event.tag not in known:
            prose = event.tag.startswith("!")
            raise YamlFault("yaml_tag", line, suspects=(line,) if prose else (), tag=event.tag)

    def _add(self, node: Node, height: int) -> None:
        if not self._stack:
            self._root = node
            return
        frame = self._stack[-1]
        frame.height = max(frame.height, height + 1)
        container = frame.container
        if isinstance(container, list):
            container.append(node)
        elif frame.key is None:
            frame.key = _key(node, container)
        else:
            container[frame.key.text] = Entry(frame.key.line, node)
            frame.key = None


def _key(node: Node, entries: dict[str, Entry]) -> Scalar:
    if not isinstance(node, Scalar) or len(node.text) > MAX_KEY_LENGTH:
        raise YamlFault("yaml_key", node.line, limit=MAX_KEY_LENGTH)
    if node.plain and node.text == "<<":
        raise YamlFault("yaml_merge", node.line)
    if (first := entries.get(node.text)) is not None:
        raise YamlFault("key_twice", node.line, field=node.text, first=first.line, second=node.line)
    return node
