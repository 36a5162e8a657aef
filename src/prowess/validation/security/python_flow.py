"""Where values of a Python module come from and go to (V3): labels on names, spread until nothing changes.

The spread knows neither order nor branches, so it finds too much rather than too little. Labels: ``credentials`` (a
file or store that opens something else, the whole environment), ``key`` (one variable of the environment), ``file``,
``remote`` (the answer of a server), ``decoded``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from prowess.validation.security import places
from prowess.validation.security.python_values import Nodes, Values, children_of, is_decoder

ROUNDS = 4
Labels = frozenset[str]
_NONE: Labels = frozenset()
_KEY_NAME = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)

_REMOTE = re.compile(
    r"^(?:requests|httpx|aiohttp|urllib3)\.(?:\w+\.)*(?:get|post|request|put)$|^urllib\.request\.(?:urlopen|urlretrieve)$|\.recv$|^(?:requests|httpx)\.(?:Session|Client|AsyncClient)\.\w+$"
)
_STORES = re.compile(
    r"^(?:keyring\.get_password|browser_cookie3\.\w+|win32crypt\.\w+|pyperclip\.paste|secretstorage\.\w+)$"
)


_SOURCES = (ast.Call, ast.Subscript, ast.BinOp, ast.Constant)
_SECRET_PART = re.compile(r"/?\.(?:ssh|aws|gnupg|kube|netrc|git-credentials|pgpass)/?")
_STEPS = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Call,
)  # fmt: skip


class Flow:
    """The labels of names and the question what labels an expression carries."""

    def __init__(self, nodes: Nodes, values: Values) -> None:
        self._values = values
        self._nodes = nodes
        self._names: dict[str, Labels] = {}
        self._own: dict[int, Labels] = {}
        self._spread_done = False
        self._empty = False
        self._downloads: set[str] | None = None

    def _spread(self) -> None:
        """Mark the names, when labels are first asked for; most modules have no place that asks."""
        self._spread_done = True
        nodes = self._nodes
        if not any(self._source(node) for node in nodes.among(_SOURCES)):
            self._empty = True
            return
        steps = [step for node in nodes.among(_STEPS) for step in self._steps(node)]
        parameters = {
            node.name: [item.arg for item in node.args.args]
            for node in nodes.among((ast.FunctionDef, ast.AsyncFunctionDef))
        }
        calls = [node for node in nodes.of(ast.Call) if _last(node.func) in parameters]
        for _ in range(ROUNDS):
            changed = False
            for targets, value in steps:
                changed |= self._mark(targets, self.labels(value))
            for call in calls:
                names = parameters[_last(call.func)]
                names = names[1:] if names[:1] in (["self"], ["cls"]) else names
                for name, argument in zip(names, call.args, strict=False):
                    changed |= self._mark([name], self.labels(argument))
            if not changed:
                break

    def _steps(self, node: ast.AST) -> list[tuple[list[str], ast.AST]]:
        if isinstance(node, ast.Assign):
            return [(_targets(node.targets), node.value), *_into(node.value, node.targets[0])]
        if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            return [(_targets([node.target]), node.value)]
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            return [(_targets([node.target]), node.iter)]
        if isinstance(node, ast.withitem) and node.optional_vars is not None:
            return [(_targets([node.optional_vars]), node.context_expr), *_into(node.context_expr, node.optional_vars)]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return [([node.name], item.value) for item in _returns(node) if item.value is not None]
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("append", "update", "extend", "add", "write", "writestr", "put", "insert")
        ):
            return [(_targets([node.func.value]), item) for item in node.args]
        return []

    def _mark(self, targets: list[str], labels: Labels) -> bool:
        changed = False
        if labels:
            for name in targets:
                before = self._names.get(name, _NONE)
                if not labels <= before:
                    self._names[name] = before | labels
                    changed = True
        return changed

    def labels(self, node: ast.AST, skip: Callable[[ast.AST], bool] | None = None) -> Labels:
        """The labels of whatever stands within an expression."""
        if not self._spread_done:
            self._spread()
        if self._empty:
            return _NONE
        found: set[str] = set()
        pending: list[ast.AST] = [node]
        budget = 2_000
        while pending and budget:
            budget -= 1
            here = pending.pop()
            if skip is not None and skip(here):
                continue
            if isinstance(here, ast.Name):
                found |= self._names.get(here.id, _NONE)
            elif isinstance(here, ast.Attribute):
                found |= self._names.get(here.attr, _NONE)
            if isinstance(here, _SOURCES):
                found |= self._source(here)
            if isinstance(here, ast.Call) and _last(here.func) == "len":
                continue
            pending.extend(children_of(here))
        return frozenset(found)

    def downloads(self) -> set[str]:
        """The names of files that hold what a server answered: ``out.write(answer)``, ``urlretrieve(address, name)``."""
        if self._downloads is None:
            self._downloads = set()
            opened = {
                name: node.context_expr
                for node in self._nodes.of(ast.withitem)
                if node.optional_vars is not None
                for name in _targets([node.optional_vars])
            }
            for call in self._nodes.of(ast.Call):
                last = _last(call.func)
                if last == "urlretrieve" and len(call.args) > 1:
                    self._downloads |= set(_targets(call.args[1:2]))
                elif last in ("write", "write_bytes", "write_text") and isinstance(call.func, ast.Attribute):
                    self._downloads |= self._filled(call, call.func, opened)
        return self._downloads

    def _filled(self, call: ast.Call, func: ast.Attribute, opened: dict[str, ast.expr]) -> set[str]:
        """The names of the file that a call writes a server's answer to."""
        if not call.args or "remote" not in self.labels(call.args[0]):
            return set()
        names = _targets([func.value])
        inner = [opened[name] for name in names if name in opened]
        names += [item.id for node in inner for item in ast.walk(node) if isinstance(item, ast.Name)]
        return set(names) - {"open"}

    def is_secret(self, node: ast.Call) -> bool:
        """Whether a call by itself reads credentials, or the whole environment."""
        return not self._source(node).isdisjoint(("credentials", "environment"))

    def _source(self, node: ast.AST) -> Labels:
        known = self._own.get(id(node))
        if known is None:
            known = self._own[id(node)] = self._find_source(node)
        return known

    def _find_source(self, node: ast.AST) -> Labels:
        values = self._values
        if isinstance(node, ast.Subscript):
            if values.name_of(node.value) == "os.environ":
                return _key(values.text_of(node.slice))
            return _NONE
        if isinstance(node, ast.BinOp):
            return self._path(values.text_of(node) if isinstance(node.op, ast.Div) else None)
        if isinstance(node, ast.Constant):
            known = isinstance(node.value, str) and len(node.value) < 20 and _SECRET_PART.fullmatch(node.value)
            return frozenset({"credentials"}) if known else _NONE
        assert isinstance(node, ast.Call)
        name = values.name_of(node.func)
        first = node.args[0] if node.args else None
        if name in ("os.getenv", "os.environ.get"):
            return _key(values.text_of(first))
        if name in ("os.environ.items", "os.environ.copy", "os.environ.values") or (
            name in ("dict", "json.dumps", "str", "repr")
            and first is not None
            and values.name_of(first) == "os.environ"
        ):
            return frozenset({"environment"})
        if name in (
            "open",
            "io.open",
            "pathlib.Path",
            "os.path.expanduser",
            "os.path.join",
            "glob.glob",
            "shutil.copy",
            "os.listdir",
            "os.walk",
        ):
            return self._path(
                values.text_of(node if name in ("pathlib.Path", "os.path.expanduser", "os.path.join") else first)
            ) | (frozenset({"file"}) if name in ("open", "io.open") else _NONE)
        if _STORES.match(name):
            return frozenset({"credentials"})
        if _REMOTE.search(name):
            return frozenset({"remote"})
        if is_decoder(name):
            return frozenset({"decoded"})
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("read_text", "read_bytes"):
            return self._path(values.text_of(node.func.value)) | {"file"}
        return _NONE

    @staticmethod
    def _path(text: str | None) -> Labels:
        if text and (places.CREDENTIAL_PATHS.search(text) or places.BROWSER_STORES.search(text)):
            return frozenset({"credentials"})
        return _NONE


def _key(name: str | None) -> Labels:
    return frozenset({"key"}) if name is not None and _KEY_NAME.search(name) else _NONE


def _last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _returns(node: ast.AST) -> list[ast.Return | ast.Yield]:
    found: list[ast.Return | ast.Yield] = []
    pending = list(children_of(node))
    while pending:
        here = pending.pop()
        if isinstance(here, ast.Return | ast.Yield):
            found.append(here)
        if not isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(children_of(here))
    return found


def _into(value: ast.AST, holder: ast.AST) -> list[tuple[list[str], ast.AST]]:
    """What is put into an archive lies in the buffer below it."""
    if isinstance(value, ast.Call) and _last(value.func) in ("open", "ZipFile", "TarFile", "GzipFile"):
        below = [key.value for key in value.keywords if key.arg in ("fileobj", "file")]
        below += [item for item in value.args[:1] if isinstance(item, ast.Name)]
        return [(_targets([item for item in below if isinstance(item, ast.Name)]), holder)]
    return []


def _targets(nodes: list[ast.expr]) -> list[str]:
    names = []
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            names.append(node.id)
        elif isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif isinstance(node, ast.Subscript | ast.Starred):
            pending.append(node.value)
        elif isinstance(node, ast.Tuple | ast.List):
            pending.extend(node.elts)
    return names
