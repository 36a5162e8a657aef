"""Names and texts of a Python module as far as they are known before the run (V3): aliases, constants, simple joins.

``name_of`` answers ``os.system`` for ``system`` after ``from os import system``, for ``getattr(os, "sys" + "tem")`` and
for ``__import__("os").system``. ``text_of`` follows literals, ``+``, ``join``, f-strings, slices, paths and decodings.
"""

from __future__ import annotations

import ast
import binascii
import codecs
from collections.abc import Iterable
from typing import Any, TypeVar

MAX_STEPS = 40
MAX_LOOKS = 200_000
"""So many expressions are looked into for one module: names that refer to names could go on for ever"""
MAX_TEXT = 64 * 1024
GAP = "\ufffc"
"""Stands in a text for the part that is not known"""

_HOME = frozenset({"pathlib.Path.home", "os.path.expanduser"})
_JOINS = frozenset({"os.path.join", "pathlib.Path", "pathlib.PurePath", "Path", "os.path.abspath", "str", "os.fspath"})
_DECODERS = frozenset(
    {
        "base64.b64decode", "base64.urlsafe_b64decode", "base64.standard_b64decode", "base64.decodebytes", "base64.b32decode",
        "base64.b85decode", "base64.a85decode", "bytes.fromhex", "bytearray.fromhex", "binascii.unhexlify", "binascii.a2b_base64",
        "codecs.decode", "zlib.decompress", "gzip.decompress", "bz2.decompress", "lzma.decompress", "marshal.loads",
    }
)  # fmt: skip


_LEAVES = frozenset(
    "ctx op ops id attr arg kind type_comment type_ignores level module conversion is_async simple asname".split()
)
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


def children_of(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node, without operators and contexts; much faster than ``ast.iter_child_nodes``."""
    kind = node.__class__
    fields = _FIELDS.get(kind)
    if fields is None:
        fields = _FIELDS[kind] = tuple(name for name in kind._fields if name not in _LEAVES)
    found: list[ast.AST] = []
    for name in fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


Kind = TypeVar("Kind", bound=ast.AST)


class Nodes:
    """The nodes of a tree, breadth first, sorted by class in one walk; at most ``limit``."""

    def __init__(self, tree: ast.AST, limit: int) -> None:
        self.all = [tree]
        for node in self.all:
            self.all += children_of(node)
            if len(self.all) >= limit:
                break
        self._kinds: dict[type[ast.AST], list[Any]] = {}
        for node in self.all:
            kind = node.__class__
            known = self._kinds.get(kind)
            if known is None:
                self._kinds[kind] = [node]
            else:
                known.append(node)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Those of one class."""
        return self._kinds.get(kind, [])

    def among(self, kinds: Iterable[type[ast.AST]]) -> list[Any]:
        """Those of some classes."""
        return [node for kind in kinds for node in self._kinds.get(kind, ())]


class Values:
    """What is known in one module; built from its nodes once."""

    def __init__(self, nodes: Nodes) -> None:
        self.aliases: dict[str, str] = {}
        self._texts: dict[str, ast.expr | None] = {}
        self._budget = MAX_LOOKS
        for node in nodes.of(ast.Import):
            for item in node.names:
                self.aliases[item.asname or item.name.partition(".")[0]] = (
                    item.name if item.asname else item.name.partition(".")[0]
                )
        for origin in nodes.of(ast.ImportFrom):
            for item in origin.names:
                self.aliases[item.asname or item.name] = f"{origin.module or ''}.{item.name}"
        for assign in nodes.of(ast.Assign):
            if len(assign.targets) == 1:
                self._assigned(assign.targets[0], assign.value)
        for noted in nodes.of(ast.AnnAssign):
            if noted.value is not None:
                self._assigned(noted.target, noted.value)
        for held in nodes.of(ast.withitem):
            if held.optional_vars is not None:
                self._assigned(held.optional_vars, held.context_expr)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        name = target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else None
        if name is None:
            return
        self._texts[name] = None if name in self._texts else value
        if isinstance(value, ast.Call | ast.Attribute | ast.Name | ast.Subscript):
            known = self.name_of(value.func if isinstance(value, ast.Call) else value)
            if known in ("getattr", "__import__", "importlib.import_module"):
                known = self.name_of(value)
            if known and ("." in known or known in ("eval", "exec", "open", "compile")) and name not in self.aliases:
                self.aliases[name] = known

    def name_of(self, node: ast.AST, steps: int = 0) -> str:
        """The dotted name that an expression stands for, or ``""``."""
        tail: list[str] = []
        while steps < MAX_STEPS:
            steps += 1
            if isinstance(node, ast.Attribute):
                tail.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Name):
                return ".".join([self.aliases.get(node.id, node.id), *reversed(tail)]).removeprefix("builtins.")
            elif isinstance(node, ast.Call):
                head = self._called(node, steps)
                return ".".join([head, *reversed(tail)]).removeprefix("builtins.") if head else ""
            elif isinstance(node, ast.Subscript):
                return self._subscript(node, tail, steps)
            elif isinstance(node, ast.Await):
                node = node.value
            else:
                return ""
        return ""

    def _called(self, node: ast.Call, steps: int) -> str:
        name = self.name_of(node.func, steps + 1)
        if name == "getattr" and len(node.args) >= 2:
            attribute = self.text_of(node.args[1])
            owner = self.name_of(node.args[0], steps + 1)
            return f"{owner}.{attribute}" if attribute and owner and GAP not in attribute else ""
        if name in ("__import__", "importlib.import_module") and node.args:
            module = self.text_of(node.args[0])
            return module if module and GAP not in module else ""
        return name

    def _subscript(self, node: ast.Subscript, tail: list[str], steps: int) -> str:
        """``__builtins__["eval"]`` and ``sys.modules["os"].system``."""
        owner = self.name_of(node.value, steps + 1)
        key = self.text_of(node.slice)
        if key and owner in (
            "__builtins__",
            "__builtins__.__dict__",
            "sys.modules",
            "globals",
            "builtins.__dict__",
            "__dict__",
        ):
            return ".".join([key, *reversed(tail)])
        if key and owner.endswith(".__dict__"):
            return ".".join([owner.removesuffix(".__dict__"), key, *reversed(tail)])
        return ""

    def text_of(self, node: ast.AST | None, steps: int = 0) -> str | None:
        """The text of an expression, with ``GAP`` for unknown parts; ``None`` where nothing is known."""
        self._budget -= 1
        if node is None or steps > MAX_STEPS or self._budget < 0:
            return None
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._variable(node, steps)
        if isinstance(node, ast.JoinedStr):
            return "".join(self._part(item, steps) for item in node.values[:200])[:MAX_TEXT]
        if isinstance(node, ast.BinOp):
            return self._joined(node, steps)
        if isinstance(node, ast.Call):
            return self._call_text(node, steps)
        if isinstance(node, ast.Subscript):
            return self._slice(node, steps)
        return None

    def _part(self, node: ast.expr, steps: int) -> str:
        inner = node.value if isinstance(node, ast.FormattedValue) else node
        return self.text_of(inner, steps + 1) or GAP

    def _variable(self, node: ast.Name | ast.Attribute, steps: int) -> str | None:
        name = node.id if isinstance(node, ast.Name) else node.attr
        value = self._texts.get(name)
        return self.text_of(value, steps + 4) if value is not None else None

    def _joined(self, node: ast.BinOp, steps: int) -> str | None:
        parts: list[str | None] = []
        here: ast.expr = node
        operator = type(node.op)
        for _ in range(200):
            if not (isinstance(here, ast.BinOp) and type(here.op) is operator):
                break
            parts.append(self.text_of(here.right, steps + 2))
            here = here.left
        parts.append(self.text_of(here, steps + 2))
        if operator not in (ast.Add, ast.Div, ast.Mod) or all(part is None for part in parts):
            return None
        ordered = [part if part is not None else GAP for part in reversed(parts)]
        if operator is ast.Mod:
            return ordered[0].replace("%s", GAP)
        return ("" if operator is ast.Add else "/").join(ordered)[:MAX_TEXT]

    def _call_text(self, node: ast.Call, steps: int) -> str | None:
        name = self.name_of(node.func)
        first = node.args[0] if node.args else None
        if name == "pathlib.Path.home":
            return "~"
        if (
            name in ("os.getenv", "os.environ.get")
            and first is not None
            and self.text_of(first, steps + 1) in ("HOME", "USERPROFILE")
        ):
            return "~"
        if name in _HOME or name in _JOINS:
            known = [self.text_of(item, steps + 2) for item in node.args[:20]]
            return "/".join(GAP if part is None else part for part in known) if any(known) else None
        if (
            name == "chr"
            and isinstance(first, ast.Constant)
            and isinstance(first.value, int)
            and 0 <= first.value < 0x110000
        ):
            return chr(first.value)
        if name in _DECODERS:
            return decoded(name, self.text_of(first, steps + 2))
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, first, steps)
        return None

    def _method(self, node: ast.Call, func: ast.Attribute, first: ast.expr | None, steps: int) -> str | None:
        if func.attr == "join" and isinstance(first, ast.List | ast.Tuple):
            glue = self.text_of(func.value, steps + 2) or ""
            return glue.join(self.text_of(item, steps + 2) or GAP for item in first.elts[:2000])[:MAX_TEXT]
        if func.attr in ("decode", "encode", "strip", "expanduser", "resolve", "lower", "absolute", "as_posix"):
            return self.text_of(func.value, steps + 2)
        if func.attr == "joinpath":
            parts = [func.value, *node.args]
            return "/".join(self.text_of(item, steps + 2) or GAP for item in parts[:20])
        if func.attr == "replace" and len(node.args) == 2:
            whole, old, new = (self.text_of(item, steps + 2) for item in (func.value, *node.args))
            if whole is not None and old and new is not None:
                return whole.replace(old, new)[:MAX_TEXT]
        if func.attr == "format":
            text = self.text_of(func.value, steps + 2)
            return text.replace("{}", GAP) if text is not None else None
        return None

    def _slice(self, node: ast.Subscript, steps: int) -> str | None:
        if self.name_of(node.value) == "os.environ":
            return "~" if self.text_of(node.slice, steps + 1) in ("HOME", "USERPROFILE") else None
        if isinstance(node.slice, ast.Slice) and isinstance(node.slice.step, ast.UnaryOp):
            text = self.text_of(node.value, steps + 2)
            return text[::-1] if text is not None else None
        return None


def _constant(value: object) -> str | None:
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, bytes):
        return value[:MAX_TEXT].decode("latin-1")
    return None


def decoded(name: str, text: str | None) -> str | None:
    """What a known text decodes to, or ``None``."""
    import base64
    import zlib

    if text is None or GAP in text:
        return None
    try:
        raw = text.encode("latin-1")
        if "b32" in name:
            data = base64.b32decode(raw)
        elif "85" in name:
            data = base64.b85decode(raw) if "b85" in name else base64.a85decode(raw)
        elif "hex" in name:
            data = bytes.fromhex(text)
        elif "decompress" in name:
            data = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(raw, MAX_TEXT)
        elif name == "codecs.decode":
            return codecs.decode(text, "rot13")
        elif name == "marshal.loads":
            return None
        else:
            data = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_" if "urlsafe" in name else None)
    except (ValueError, binascii.Error, zlib.error):
        return None
    return data.decode("latin-1")[:MAX_TEXT]


def is_decoder(name: str) -> bool:
    """Whether a call by that name decodes or decompresses."""
    return name in _DECODERS
