"""What a JavaScript or TypeScript file does (V3): a tokenizer, calls with their arguments, and simple flows.

There is no syntax tree here: names, calls and texts are enough for the rules, and a tokenizer is linear in any input.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from prowess.validation.security import places
from prowess.validation.security.rules import Finding
from prowess.validation.security.shell import Shell
from prowess.validation.security.uses import Use

MAX_SCRIPT_CHARACTERS = 512 * 1024
MAX_TOKENS = 150_000
MAX_ARGUMENT_TOKENS = 300
MAX_LOOKS = 1_500_000
"""So many tokens are looked at as parts of arguments and values, nested ones once for each level"""

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+) | (?P<line>\n) | (?P<comment>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))
    | (?P<text>"(?:[^"\\\n]|\\[\s\S])*"? | '(?:[^'\\\n]|\\[\s\S])*'? | `(?:[^`\\]|\\[\s\S])*`?)
    | (?P<name>[A-Za-z_$][\w$]*(?:\s*\??\.\s*[A-Za-z_$][\w$]*)*) | (?P<number>\d[\w.]*) | (?P<other>=>|[\s\S])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|[\s\S])")
_SPACES = re.compile(r"\s*\??\.\s*")

_RUNS = frozenset("exec execSync spawn spawnSync execFile execFileSync fork".split())
_READS = frozenset("readFile readFileSync createReadStream readdir readdirSync".split())
_WRITES = frozenset(
    "writeFile writeFileSync appendFile appendFileSync createWriteStream mkdir mkdirSync copyFile copyFileSync rename renameSync".split()
)
_DELETES = frozenset("unlink unlinkSync rm rmSync rmdir rmdirSync".split())
_SEND = re.compile(
    r"^(?:fetch|axios(?:\.\w+)?|got(?:\.\w+)?|(?:https?|http2)\.(?:request|get)|request(?:\.\w+)?|superagent\.\w+|navigator\.sendBeacon|\$\.(?:ajax|post|get))$"
)
_CONNECTS = re.compile(r"^(?:(?:https?|http2|net|tls|dgram)\.\w+|WebSocket|XMLHttpRequest)$")
_DECODES = re.compile(r"^(?:atob|Buffer\.from|unescape|decodeURIComponent|String\.fromCharCode|zlib\.\w+)$")


_WORTH_READING = tuple(
    """eval Function( exec spawn child_process process.env vm.runIn .ssh id_rsa id_ed25519 .aws .azure .netrc .gnupg .kube .docker
    credentials .npmrc .pypirc eychain wallet seed.txt mnemonic hrome irefox metamask /etc/ .bashrc .zshrc .bash_ .zprofile .profile cron
    systemd autostart LaunchAgents .git/hooks authorized_keys stratum coinhive fork""".split()
)
"""An example in a document that has none of these words has nothing that weighs there, and is not read"""


class Token(NamedTuple):
    """One token: kind ``name``, ``text`` (its value), ``number`` or ``other``, value, 1-based line."""

    kind: str
    value: str
    line: int


def tokens_of(text: str, line: int = 1) -> list[Token]:
    """The tokens of a script without space and comments; names with their dots as one token."""
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        value = match.group()
        if kind == "text":
            found.append(Token("text", _ESCAPE.sub(_unescape, value[1:-1] if len(value) > 1 else ""), line))
        elif kind == "name":
            found.append(Token("name", _SPACES.sub(".", value), line))
        elif kind in ("number", "other"):
            found.append(Token(kind, value, line))
        line += value.count("\n")
        if len(found) >= MAX_TOKENS:
            break
    return found


def _unescape(found: re.Match[str]) -> str:
    body = found.group(1)
    if body[0] in "xu" and len(body) > 1:
        number = int(body[1:].strip("{}"), 16)
        return chr(number) if number < 0x110000 else ""
    return {"n": "\n", "t": "\t", "r": "\r", "\n": ""}.get(body, body)


def read_script(text: str, file: str, line: int = 1, *, document: bool = False) -> tuple[list[Finding], list[Use]]:
    """Findings and uses of one script."""
    if document and not any(word in text for word in _WORTH_READING):
        return [], []
    findings = []
    if len(text) > MAX_SCRIPT_CHARACTERS:
        findings.append(Finding("sec_too_large", file, line, str(len(text)), document))
    reader = _Reader(tokens_of(text[:MAX_SCRIPT_CHARACTERS], line), file, document)
    reader.run()
    if reader.exhausted and not findings:
        findings.append(Finding("sec_too_large", file, line, str(len(text)), document))
    return findings + reader.findings, reader.uses


class _Reader:
    def __init__(self, tokens: list[Token], file: str, document: bool) -> None:
        self.findings: list[Finding] = []
        self.uses: list[Use] = []
        self._tokens = tokens
        self._file = file
        self._document = document
        self._values: dict[str, str] = {}
        self._labels: dict[str, set[str]] = {}
        self._modules: dict[str, str] = {}
        self._budget = MAX_LOOKS
        self._connects = False

    @property
    def exhausted(self) -> bool:
        """Whether the script was too large or too deep to be looked at whole."""
        return self._budget < 0 or len(self._tokens) >= MAX_TOKENS

    def _add(self, code: str, line: int, what: str) -> None:
        self.findings.append(Finding(code, self._file, line, what, self._document))

    def _use(self, kind: str, target: str, line: int) -> None:
        self.uses.append(Use(kind, target or "*", self._file, line))

    def run(self) -> None:
        """Learn names first, then look at every call and text."""
        for _ in range(2):
            self._learn()
        self._connects = any(token.kind == "name" and _CONNECTS.match(token.value) for token in self._tokens)
        for index, token in enumerate(self._tokens):
            if token.kind == "text":
                self._text(token)
            elif token.value == "[":
                self._computed(index)
            elif token.kind == "name":
                follower = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
                if follower is not None and follower.value == "(" and follower.kind == "other":
                    self._call(index, token)
                elif token.value.startswith("process.env."):
                    self._use("env_read", token.value.split(".")[2], token.line)

    def _computed(self, index: int) -> None:
        """``m["exec" + "Sync"](…)`` and ``["ch", "ild"].join("")``: a name put together to be hidden."""
        parts = []
        for token in self._tokens[index + 1 : index + 24]:
            if token.kind == "text":
                parts.append(token.value)
            elif token.value not in ("+", ","):
                break
        name = "".join(parts)
        if len(parts) > 1 and (name in _RUNS or name in ("eval", "child_process", "Function")):
            self._add("sec_hidden_name", self._tokens[index].line, name)

    def _learn(self) -> None:
        tokens = self._tokens
        for index, token in enumerate(tokens[:-2]):
            if token.kind == "text" and index and tokens[index - 1].value == "from":
                self._imported(index, token.value)
            if token.kind != "name" or tokens[index + 1].value != "=" or tokens[index + 2].value == "=":
                continue
            if index and tokens[index - 1].value in (".", "}"):
                continue
            name = token.value.rpartition(".")[2]
            right = self._until(index + 2, (";",), 120)
            if right and right[0].value.endswith("require") and len(right) > 2 and right[2].kind == "text":
                self._modules[name] = right[2].value.removeprefix("node:")
            elif right and all(
                item.kind == "text" or item.value == "+" or item.value in self._values for item in right[:40]
            ):
                self._values[name] = "".join(
                    item.value if item.kind == "text" else self._values.get(item.value, "") for item in right[:40]
                )
            labels = self._labels_of(right)
            if labels:
                self._labels.setdefault(name, set()).update(labels)
        for index, token in enumerate(tokens[:-3]):
            if (
                token.value == "}"
                and tokens[index + 1].value == "="
                and tokens[index + 2].value == "require"
                and tokens[index + 4 :]
            ):
                self._imported(index + 1, tokens[index + 4].value)

    def _imported(self, index: int, module: str) -> None:
        module = module.removeprefix("node:")
        for back in range(index - 1, max(index - 40, -1), -1):
            token = self._tokens[back]
            if token.value in ("import", "const", "let", "var", ";"):
                break
            if token.kind == "name":
                self._modules.setdefault(token.value, module)

    def _until(self, index: int, ends: tuple[str, ...], limit: int) -> list[Token]:
        taken: list[Token] = []
        level = 0
        limit = min(limit, max(self._budget, 0))
        start = self._tokens[index].line if index < len(self._tokens) else 0
        for token in self._tokens[index : index + limit]:
            if token.kind == "other":
                if token.value in "([{":
                    level += 1
                elif token.value in ")]}":
                    level -= 1
                    if level < 0:
                        break
                elif token.value in ends and level <= 0:
                    break
            if (
                level <= 0
                and token.line > start
                and taken
                and token.value in ("const", "let", "var", "return", "if", "for", "await")
            ):
                break
            taken.append(token)
        self._budget -= len(taken) + 1
        return taken

    def _labels_of(self, tokens: list[Token]) -> set[str]:
        labels: set[str] = set()
        for index, token in enumerate(tokens):
            value = token.value
            if token.kind == "name":
                labels |= self._labels.get(value.partition(".")[0], set())
                if _SEND.match(value) and not value.endswith(("post", "put")):
                    labels.add("remote")
                elif _DECODES.match(value):
                    near = " ".join(item.value for item in tokens[index : index + 8])
                    if value != "Buffer.from" or "base64" in near or "hex" in near:
                        labels.add("decoded")
                elif value == "process.env":
                    follower = tokens[index + 1].value if index + 1 < len(tokens) else ""
                    if follower != "[":
                        labels.add("environment")
                elif value.rpartition(".")[2] in _READS:
                    labels.add("file")
            elif token.kind == "text" and (
                places.CREDENTIAL_PATHS.search(value) or places.BROWSER_STORES.search(value)
            ):
                labels.add("credentials")
        return labels

    # ---- calls and texts

    def _text(self, token: Token) -> None:
        value = token.value
        if places.MESSAGE_HOOKS.search(value) or ("http" in value and places.DROP_HOSTS.search(value)):
            self._add("sec_drop_host", token.line, value)
        elif (
            "://" in value
            and len(value) < 4096
            and any(places.is_bare_address(host) for host in places.hosts_in(value))
        ):
            self._add("sec_bare_address", token.line, value)
        if "stratum+" in value or "coinhive" in value.lower():
            self._add("sec_miner", token.line, value)

    def _call(self, index: int, token: Token) -> None:
        arguments = self._until(index + 2, (), MAX_ARGUMENT_TOKENS)
        name = token.value
        last = name.rpartition(".")[2]
        owner = name.partition(".")[0]
        module = self._modules.get(owner, owner)
        before = self._tokens[index - 1].value if index else ""
        if before in ("function", "async") or (self._is_definition(index, arguments) and "." not in name):
            return
        if before == "require" or name == "require.child_process":
            return
        if name in ("eval", "Function", "window.eval", "globalThis.eval") or name.startswith("vm.runIn"):
            self._evaluate(token, name, arguments, constructed=before == "new")
        elif (
            name in ("setTimeout", "setInterval")
            and arguments[:1]
            and arguments[0].kind == "text"
            and len(arguments[0].value) > 30
        ):
            self._add("sec_dynamic_code", token.line, arguments[0].value)
        elif (
            last in _RUNS
            and (module == "child_process" or owner in ("child_process", "cp", "execa") or self._required(index))
        ) or (
            last in _RUNS
            and name == last
            and module == name
            and "child_process" in self._modules.values()
            and last != "fork"
        ):
            self._run(token, name, arguments)
        elif _SEND.match(name):
            self._send(token, name, arguments)
        elif (
            last in ("write", "end", "send")
            and self._connects
            and self._labels_of(arguments) & {"credentials", "environment"}
        ):
            self._add("sec_exfiltration", token.line, name)
        if last in _READS or last in _WRITES or last in _DELETES:
            kind = "fs_read" if last in _READS else "fs_write" if last in _WRITES else "fs_delete"
            self._touch(kind, self._joined(arguments[:12]), token)

    def _required(self, index: int) -> bool:
        """``require("child_process").execSync(…)``: the name comes after a closing parenthesis and a dot."""
        back = [item.value for item in self._tokens[max(0, index - 6) : index]]
        return "child_process" in back or "node:child_process" in back

    def _is_definition(self, index: int, arguments: list[Token]) -> bool:
        after = index + 3 + len(arguments)
        return after < len(self._tokens) and self._tokens[after].value == "{"

    def _evaluate(self, token: Token, name: str, arguments: list[Token], *, constructed: bool) -> None:
        if name == "Function" and not constructed and not arguments:
            return
        if not arguments:
            return
        labels = self._labels_of(arguments)
        shown = f"{name}({' '.join(item.value for item in arguments[:8])})"
        self._use("dynamic", name, token.line)
        if "decoded" in labels:
            self._add("sec_decode_run", token.line, shown)
        elif "remote" in labels:
            self._add("sec_remote_run", token.line, shown)
        elif not all(item.kind == "text" for item in arguments) and arguments[0].value not in ("string", "code"):
            self._add("sec_dynamic_code", token.line, shown)

    def _run(self, token: Token, name: str, arguments: list[Token]) -> None:
        labels = self._labels_of(arguments)
        text = self._joined(arguments[:1])
        shown = f"{name}({' '.join(item.value for item in arguments[:10])})"
        if "decoded" in labels:
            self._add("sec_decode_run", token.line, shown)
        elif "remote" in labels:
            self._add("sec_remote_run", token.line, shown)
        if text:
            words = [item.value for item in arguments[1:40] if item.kind == "text"]
            line = (
                text
                if "exec" in name.lower() and "file" not in name.lower()
                else " ".join([text, *(_quote(word) for word in words)])
            )
            inner = Shell(re.sub(r"\$\{[^}]*\}", "$_", line), self._file, token.line, document=self._document).run()
            self.findings += list(inner.findings)
            self.uses += inner.uses
        else:
            self._use("command", "*", token.line)

    def _send(self, token: Token, name: str, arguments: list[Token]) -> None:
        text = self._joined(arguments[:1])
        hosts = places.hosts_in(text)
        self._use("network", hosts[0] if hosts else "*", token.line)
        joined = " ".join(item.value for item in arguments)
        if "POST" in joined or "PUT" in joined or name.endswith(("post", "put", "sendBeacon")):
            self._use("send", " ".join(hosts), token.line)
        labels = self._labels_of(arguments)
        if labels & {"credentials", "environment"}:
            self._add("sec_exfiltration", token.line, f"{name} {' '.join(hosts)}")

    def _touch(self, kind: str, target: str, token: Token) -> None:
        self._use(kind, target, token.line)
        if not target:
            return
        if kind == "fs_write":
            if places.AUTHORIZED_KEYS.search(target):
                self._add("sec_persistence", token.line, target)
            elif places.SHELL_RC.search(target) or places.AUTOSTART_PATHS.search(target):
                self._add("sec_autostart", token.line, target)
            elif places.AGENT_SETTINGS.search(target):
                self._add("sec_agent_settings", token.line, target)
        elif kind == "fs_read" and (places.CREDENTIAL_PATHS.search(target) or places.BROWSER_STORES.search(target)):
            self._add("sec_credentials_read", token.line, target)
            self._use("secret", target, token.line)

    def _joined(self, tokens: list[Token]) -> str:
        """The text of an argument: literals and known names, up to the first comma that is not within parentheses."""
        parts = []
        level = 0
        for token in tokens:
            if token.kind == "other":
                level += (token.value in "([") - (token.value in ")]")
                if token.value == "," and level <= 0:
                    break
            elif token.kind == "text":
                parts.append(token.value)
            elif token.kind == "name":
                parts.append(
                    self._values.get(
                        token.value, "~" if "homedir" in token.value or token.value.endswith("env.HOME") else ""
                    )
                )
        return "/".join(part for part in parts if part) if level or len(parts) > 1 else "".join(parts)


def _quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
