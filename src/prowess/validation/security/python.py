"""What a Python script does (V3): rules on its syntax tree, and what it uses for the audit. It is parsed, never run."""

from __future__ import annotations

import ast
import re
import warnings

from prowess.validation.security import places
from prowess.validation.security.commands import INTERPRETERS, program_name
from prowess.validation.security.python_flow import Flow
from prowess.validation.security.python_values import GAP, Nodes, Values, is_decoder
from prowess.validation.security.rules import Finding
from prowess.validation.security.shell import Shell
from prowess.validation.security.uses import Use
from prowess.validation.security.words import UNKNOWN

MAX_PYTHON_CHARACTERS = 256 * 1024
MAX_NODES = 150_000

_RUNS = frozenset(
    """os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen
    subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell asyncio.create_subprocess_exec
    os.execv os.execve os.execvp os.execl os.execlp os.spawnv os.spawnl pty.spawn commands.getoutput""".split()
)
_TEXT_RUNS = frozenset(
    "os.system os.popen subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell commands.getoutput".split()
)
_EVALS = frozenset("eval exec compile __import__ runpy.run_path code.interact types.FunctionType".split())
_UNPICKLE = frozenset(
    "pickle.loads pickle.load marshal.loads marshal.load dill.loads dill.load cloudpickle.loads shelve.open jsonpickle.decode".split()
)
_SENDS = re.compile(
    r"^(?:requests|httpx|aiohttp)\.(?:\w+\.)?(?:post|put|patch|request|get|head|delete|stream)$|^urllib3\.\w+\.request$|^urllib\.request\.(?:urlopen|Request)$"
    r"|^(?:requests|httpx)\.(?:Session|Client|AsyncClient)\.\w+$|^aiohttp\.ClientSession\.\w+$|^http\.client\.HTTPS?Connection\.request$"
    r"|^socket\.(?:socket|create_connection)\.(?:send|sendall|sendto)$|^smtplib\.SMTP(?:_SSL)?\.send(?:mail|_message)$|^ftplib\.FTP\.stor\w+$|^paramiko\.\w+\.\w+$"
    r"|^socket\.get(?:hostbyname|addrinfo)$|^boto3\.\w+\.upload_file$"
)
_NETWORK = re.compile(
    r"^(?:requests|httpx|aiohttp|urllib3|urllib\.request|http\.client|socket|smtplib|ftplib|paramiko|websockets?|websocket)\b"
)
_TALKS = frozenset(
    "requests httpx aiohttp urllib3 urllib http socket smtplib ftplib paramiko websockets websocket boto3".split()
)
_HEADERS = frozenset("headers auth cookies timeout verify cert token api_key allow_redirects".split())
_BODIES = frozenset("json data files params content".split())
_OPEN = frozenset({"open", "io.open", "codecs.open"})
_PATH_READS = frozenset({"read_text", "read_bytes"})
_PATH_WRITES = frozenset({"write_text", "write_bytes", "mkdir", "touch", "rename", "symlink_to"})
_WRITES = frozenset(
    "shutil.copy shutil.copy2 shutil.copyfile shutil.move shutil.copytree os.rename os.replace os.symlink os.link".split()
)
_MAKES = frozenset("os.makedirs os.mkdir os.chmod os.mkfifo".split())
_DELETES = frozenset("os.remove os.unlink os.rmdir shutil.rmtree os.removedirs".split())
_SPIES = re.compile(
    r"^(?:pynput|keyboard\.(?:on_press|hook|record)|pyautogui\.screenshot|mss\.|PIL\.ImageGrab|ImageGrab|cv2\.VideoCapture|sounddevice\.rec|pyaudio|pyxhook)"
)
_SPYING = frozenset("pynput keyboard pyautogui mss PIL ImageGrab cv2 sounddevice pyaudio pyxhook".split())
_SQL = re.compile(
    r"^\s*(?:select\b.{1,300}\bfrom\b|insert\s+into\b|update\b.{1,200}\bset\b|delete\s+from\b|drop\s+table\b)",
    re.IGNORECASE | re.DOTALL,
)
_WORTH_READING = tuple(
    """exec eval system popen Popen subprocess spawn __import__ getattr import_module socket pickle marshal FunctionType environ keyring
    cookie win32crypt pyperclip secretstorage .ssh id_rsa id_ed25519 .aws .azure .netrc .gnupg .config .kube .docker credentials .npmrc
    .pypirc .pgpass eychain eychains wallet seed mnemonic hrome irefox /etc/ /proc/ .bashrc .zshrc .bash_ .zprofile .zshenv .profile cron
    systemd autostart LaunchAgents LaunchDaemons .git/hooks authorized_keys rmtree setuid setgid seteuid chmod pynput pyxhook ImageGrab
    screenshot VideoCapture sounddevice pyaudio keyboard xmrig stratum ctypes LD_PRELOAD execute creationflags""".split()
)
"""An example in a document that has none of these words has nothing that weighs there, and is not parsed"""
_ENDS = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)
_WAITS = re.compile(
    r"sleep|wait|recv|read|input|get|accept|poll|select|join|exit|next|run|serve|listen|fetch|request|query|sync|update|tick|send|handle"
)


def read_python(text: str, file: str, line: int = 1, *, document: bool = False) -> tuple[list[Finding], list[Use]]:
    """Findings and uses of one script; text that is no Python yields ``sec_unparsable`` and nothing else."""
    if len(text) > MAX_PYTHON_CHARACTERS:
        return [Finding("sec_too_large", file, line, str(len(text)), document)], []
    if document and not any(word in text for word in _WORTH_READING):
        return [], []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        nodes = Nodes(tree, MAX_NODES)
    except (RecursionError, MemoryError):
        return [Finding("sec_too_deep", file, line, "", document)], []
    except (SyntaxError, ValueError) as error:
        place = line - 1 + (getattr(error, "lineno", None) or 1)
        return [Finding("sec_unparsable", file, place, str(getattr(error, "msg", error)), document)], []
    if len(nodes.all) >= MAX_NODES:
        return [Finding("sec_too_large", file, line, f"{len(nodes.all)}", document)], []
    reader = _Reader(nodes, file, line - 1, document)
    try:
        reader.run()
    except RecursionError:
        reader.add("sec_too_deep", nodes.all[0], "")
    return reader.findings, reader.uses


class _Reader:
    def __init__(self, nodes: Nodes, file: str, offset: int, document: bool) -> None:
        self.findings: list[Finding] = []
        self.uses: list[Use] = []
        self._nodes = nodes
        self._file = file
        self._offset = offset
        self._document = document
        self.values = Values(nodes)
        self.flow = Flow(nodes, self.values)
        self._guards = {id(item) for node in nodes.of(ast.If) if self._is_date(node.test) for item in ast.walk(node)}
        self._executes = any(
            _called(node) in ("execute", "executemany", "executescript") for node in nodes.of(ast.Call)
        )
        self._parameters = {
            item.arg for node in nodes.among((ast.FunctionDef, ast.AsyncFunctionDef)) for item in node.args.args
        }

    def add(self, code: str, node: ast.AST, what: str) -> None:
        """Note a finding at a node."""
        line = self._offset + (getattr(node, "lineno", None) or 1)
        self.findings.append(Finding(code, self._file, line, what.replace(GAP, "…"), self._document))

    def _use(self, kind: str, target: str | None, node: ast.AST) -> None:
        line = self._offset + getattr(node, "lineno", 1)
        self.uses.append(Use(kind, "*" if not target or target == GAP else target.replace(GAP, "*"), self._file, line))

    def run(self) -> None:
        """Apply all rules once to every node."""
        nodes = self._nodes
        for call in nodes.of(ast.Call):
            self._call(call, self.values.name_of(call.func))
        for origin in nodes.among((ast.Import, ast.ImportFrom)):
            self._import(origin)
        for part in nodes.of(ast.Subscript):
            self._subscript(part)
        for loop in nodes.of(ast.While):
            self._loop(loop)
        for walk in nodes.of(ast.For):
            self._sweep(walk)
        for text in nodes.of(ast.JoinedStr):
            self._sql(text)
        for constant in nodes.of(ast.Constant):
            if constant.value.__class__ is str and 3 < len(constant.value) < 4096:
                self._constant(constant, constant.value)
        for product in nodes.of(ast.BinOp):
            if isinstance(product.op, ast.Mult):
                self._repeat(product)

    # ---- single nodes

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [item.name for item in node.names]
        for name in names:
            top = name.partition(".")[0]
            if top in ("pynput", "pyxhook", "browser_cookie3", "win32crypt"):
                self.add("sec_spying", node, f"import {name}")
            if top in ("ctypes", "cffi"):
                self._use("native", top, node)

    def _subscript(self, node: ast.Subscript) -> None:
        if self.values.name_of(node.value) == "os.environ":
            name = self.values.text_of(node.slice)
            kind = "env_write" if isinstance(node.ctx, ast.Store) else "env_read"
            self._use(kind, name, node)
            if kind == "env_write" and name in ("LD_PRELOAD", "PYTHONSTARTUP", "DYLD_INSERT_LIBRARIES", "BASH_ENV"):
                self.add("sec_environment_poison", node, name)

    def _constant(self, node: ast.Constant, value: str) -> None:
        if "." not in value and "/" not in value and "xmrig" not in value.lower():
            return
        if places.MESSAGE_HOOKS.search(value) or ("http" in value and places.DROP_HOSTS.search(value)):
            self.add("sec_drop_host", node, value)
        elif "://" in value and any(places.is_bare_address(host) for host in places.hosts_in(value)):
            self.add("sec_bare_address", node, value)
        if "stratum+" in value or "xmrig" in value.lower():
            self.add("sec_miner", node, value)
        if "." in value and len(value) < 300 and places.CREDENTIAL_PATHS.search(value):
            self._use("secret", value, node)

    def _loop(self, node: ast.While) -> None:
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if not endless:
            return
        for inner in ast.walk(node):
            if isinstance(inner, _ENDS):
                return
            if isinstance(inner, ast.Call) and _WAITS.search(_called(inner).lower()):
                return
        self.add("sec_endless", node, "while True")

    def _sweep(self, node: ast.For) -> None:
        """A walk over the whole home or system whose every file is deleted, with no condition between."""
        call = node.iter
        if not isinstance(call, ast.Call):
            return
        start = call.func.value if isinstance(call.func, ast.Attribute) and _called(call) in ("rglob", "glob") else None
        if self.values.name_of(call.func) in ("os.walk", "os.scandir") and call.args:
            start = call.args[0]
        root = self.values.text_of(start) if start is not None else None
        if root is None or root.rstrip("/") not in ("", "~", "/home", "/root", "/Users", "/etc", "/usr", "/var"):
            return
        inside = [item for part in node.body for item in ast.walk(part)]
        if any(isinstance(item, ast.If | ast.Match | ast.IfExp) for item in inside):
            return
        for item in inside:
            if isinstance(item, ast.Call) and (self.values.name_of(item.func) in _DELETES or _called(item) == "unlink"):
                self.add("sec_destruction", item, f"{_source(call)}: {_source(item)}")
                return

    def _repeat(self, node: ast.BinOp) -> None:
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, ast.List | ast.Constant) and isinstance(other, ast.Constant):
                if isinstance(one, ast.Constant) and not isinstance(one.value, str | bytes):
                    continue
                if isinstance(other.value, int) and not isinstance(other.value, bool) and other.value >= 10_000_000:
                    self.add("sec_memory_bomb", node, f"× {other.value}")

    def _is_date(self, node: ast.expr) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call):
                name = self.values.name_of(inner.func)
                if name in (
                    "time.time",
                    "datetime.datetime.now",
                    "datetime.date.today",
                    "datetime.datetime.utcnow",
                    "datetime.datetime.today",
                ):
                    others = [
                        item
                        for item in ast.walk(node)
                        if isinstance(item, ast.Call | ast.Constant) and item is not inner
                    ]
                    return any(
                        (isinstance(item, ast.Constant) and isinstance(item.value, int) and item.value > 1_500_000_000)
                        or (
                            isinstance(item, ast.Call)
                            and self.values.name_of(item.func) in ("datetime.datetime", "datetime.date")
                        )
                        or (
                            isinstance(item, ast.Constant)
                            and isinstance(item.value, str)
                            and re.match(r"20\d\d-\d\d", item.value)
                        )
                        for item in others
                    )
        return False

    # ---- calls

    def _call(self, node: ast.Call, name: str) -> None:
        first = node.args[0] if node.args else None
        if name in _EVALS:
            self._evaluate(node, name, first)
        elif name in _RUNS:
            self._run(node, name, first)
        elif name in _UNPICKLE:
            self._unpickle(node, name, first)
        elif name in ("getattr", "importlib.import_module") and len(node.args) >= 1:
            self._lookup(node, name)
        if name.partition(".")[0] in _SPYING and _SPIES.match(name):
            self.add("sec_spying", node, name)
        if name in ("os.getenv", "os.environ.get"):
            self._use("env_read", self.values.text_of(first), node)
        if name in ("os.environ.items", "os.environ.copy") or (
            name == "dict" and first is not None and self.values.name_of(first) == "os.environ"
        ):
            self._use("env_read", "*", node)
        if name in ("os.setuid", "os.setgid", "os.seteuid"):
            self.add("sec_privilege", node, name)
        if name == "ctypes.CDLL" or name.startswith("ctypes.windll"):
            self._use("native", self.values.text_of(first), node)
        self._network(node, name, first)
        self._files(node, name, first)
        if self.flow.is_secret(node):
            self._use("secret", name, node)

    def _evaluate(self, node: ast.Call, name: str, first: ast.expr | None) -> None:
        if first is None or (name in ("compile", "__import__") and not self.flow.labels(first)):
            if name == "__import__" and self.values.text_of(first) is None:
                self.add("sec_hidden_name", node, name)
            return
        self._use("dynamic", name, node)
        text = self.values.text_of(first)
        labels = self.flow.labels(first)
        direct = isinstance(first, ast.Constant)
        if "remote" in labels:
            self.add("sec_remote_run", node, f"{name}({_source(first)})")
        elif "decoded" in labels or _is_decoding(self.values, first):
            self.add("sec_decode_run", node, text or f"{name}({_source(first)})")
        elif text is not None and GAP not in text and not direct:
            self.add("sec_hidden_name" if len(text) < 4096 else "sec_decode_run", node, text)
        elif not direct:
            self.add("sec_dynamic_code", node, f"{name}({_source(first)})")
        if text is not None and GAP not in text and name in ("eval", "exec") and len(text) > 12:
            inner, uses = read_python(text, self._file, self._offset + node.lineno, document=self._document)
            self.findings += [item for item in inner if item.code != "sec_unparsable"]
            self.uses += uses

    def _run(self, node: ast.Call, name: str, first: ast.expr | None) -> None:
        shell = name in _TEXT_RUNS or any(
            item.arg == "shell" and isinstance(item.value, ast.Constant) and item.value.value for item in node.keywords
        )
        first = (
            first
            if first is not None
            else next((item.value for item in node.keywords if item.arg in ("args", "cmd")), None)
        )
        if first is None:
            return
        labels = self.flow.labels(first)
        parts = first.elts if isinstance(first, ast.List | ast.Tuple) else []
        script = len(parts) > 2 and program_name(self.values.text_of(parts[0]) or "") in INTERPRETERS
        if "remote" in labels and (shell or script):
            self.add("sec_remote_run", node, f"{name}({_source(first)})")
        elif "decoded" in labels or _is_decoding(self.values, first):
            self.add("sec_decode_run", node, f"{name}({_source(first)})")
        started = {item.id for item in ast.walk(first) if isinstance(item, ast.Name)} - {"sys", "str"}
        if started and started & self.flow.downloads():
            self.add("sec_download_run", node, f"{name}({_source(first)})")
        if any(item.arg == "creationflags" for item in node.keywords):
            self.add("sec_spawn_hidden", node, name)
        if id(node) in self._guards:
            self.add("sec_time_bomb", node, f"{name}({_source(first)})")
        line = self._offset + node.lineno
        if isinstance(first, ast.List | ast.Tuple):
            words = [self.values.text_of(item) or UNKNOWN for item in first.elts]
            if name in ("os.execl", "os.execlp"):
                words = [self.values.text_of(item) or UNKNOWN for item in node.args]
            self._shell(_quoted(words), line)
            return
        text = self.values.text_of(first)
        if text is None or text.startswith(GAP):
            self._use("command", "*", node)
            if shell and not isinstance(first, ast.Constant):
                self.add("sec_shell_text", node, f"{name}({_source(first)})")
            return
        if shell and GAP in text:
            self.add("sec_shell_text", node, text)
        self._shell(text.replace(GAP, "$_") if shell else _quoted([text, *self._rest(node)]), line)

    def _rest(self, node: ast.Call) -> list[str]:
        return [self.values.text_of(item) or UNKNOWN for item in node.args[1:]]

    def _shell(self, text: str, line: int) -> None:
        inner = Shell(text, self._file, line, document=self._document).run()
        self.findings += [Finding(item.code, item.file, line, item.what, item.document) for item in inner.findings]
        self.uses += [use._replace(line=line) for use in inner.uses]

    def _unpickle(self, node: ast.Call, name: str, first: ast.expr | None) -> None:
        self._use("dynamic", name, node)
        labels = self.flow.labels(first) if first is not None else frozenset()
        if "remote" in labels:
            self.add("sec_remote_run", node, name)
        elif "decoded" in labels and name.startswith(("pickle", "dill", "cloudpickle", "marshal")):
            self.add("sec_decode_run", node, name)
        elif name != "shelve.open":
            self.add("sec_unpickle", node, name)

    def _lookup(self, node: ast.Call, name: str) -> None:
        if name == "importlib.import_module":
            self._use("dynamic", self.values.text_of(node.args[0]), node)
            built = not isinstance(node.args[0], ast.Constant) and self.values.text_of(node.args[0])
            if built and built in ("os", "subprocess", "socket", "ctypes"):
                self.add("sec_hidden_name", node, built)
            return
        owner = self.values.name_of(node.args[0])
        attribute = self.values.text_of(node.args[1]) if len(node.args) > 1 else None
        if owner in ("os", "subprocess", "builtins", "__builtins__", "socket", "shutil", "importlib"):
            dangerous = f"{owner}.{attribute}" in _RUNS or attribute in _EVALS
            if attribute is None or GAP in attribute or dangerous:
                self.add("sec_hidden_name", node, f"getattr({owner}, {attribute or '…'})")

    # ---- network

    def _network(self, node: ast.Call, name: str, first: ast.expr | None) -> None:
        if name.partition(".")[0] not in _TALKS:
            return
        sends = _SENDS.search(name) is not None
        if not sends and not _NETWORK.match(name):
            return
        texts = [
            self.values.text_of(item)
            for item in (*node.args[:2], *(key.value for key in node.keywords if key.arg == "url"))
        ]
        hosts = [host for text in texts if text for host in places.hosts_in(text.replace(GAP, "_"))]
        for host in hosts:
            self._use("network", host, node)
        if not hosts and (sends or name in ("urllib.request.urlretrieve", "socket.create_connection")):
            self._use("network", next((text for text in texts if text and "." in text and "/" not in text), None), node)
        if sends:
            self._send(node, name, hosts)
        for key in node.keywords:
            if key.arg == "verify" and isinstance(key.value, ast.Constant) and key.value.value is False:
                self.add("sec_tls_off", node, f"{name}(verify=False)")
        if name in ("socket.socket.connect", "socket.create_connection"):
            joined = " ".join(self.values.name_of(item.func) for item in self._nodes.of(ast.Call))
            if "os.dup2" in joined or "pty.spawn" in joined:
                self.add("sec_reverse_shell", node, name)
        if name == "urllib.request.urlretrieve" and len(node.args) > 1:
            self._use("fs_write", self.values.text_of(node.args[1]), node)

    def _send(self, node: ast.Call, name: str, hosts: list[str]) -> None:
        if name.endswith((".post", ".put", ".sendall", ".send", ".sendmail", ".request")):
            self._use("send", " ".join(hosts), node)
        bodies = [*node.args, *(key.value for key in node.keywords if key.arg not in _HEADERS)]
        labels = (
            frozenset().union(*(self.flow.labels(item, self._is_header) for item in bodies)) if bodies else frozenset()
        )
        if "credentials" in labels or "environment" in labels:
            self.add("sec_exfiltration", node, f"{name} {' '.join(hosts)}")
        elif "key" in labels and "file" in labels:
            named = [key.value for key in node.keywords if key.arg in _BODIES]
            if any("key" in self.flow.labels(item) for item in named):
                self.add("sec_key_in_body", node, f"{name} {' '.join(hosts)}")
        if "file" in labels and id(node) in self._guards:
            self.add("sec_time_bomb", node, name)

    def _is_header(self, node: ast.AST) -> bool:
        return isinstance(node, ast.keyword) and node.arg in _HEADERS

    # ---- files and data

    def _files(self, node: ast.Call, name: str, first: ast.expr | None) -> None:
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in _OPEN or (attribute == "open" and name.endswith("Path.open")):
            target = self.values.text_of(first if name in _OPEN else node.func.value)  # type: ignore[attr-defined]
            mode = self.values.text_of(node.args[1]) if name in _OPEN and len(node.args) > 1 else None
            mode = next((self.values.text_of(key.value) for key in node.keywords if key.arg == "mode"), mode) or "r"
            self._file_use("fs_write" if any(char in mode for char in "wax+") else "fs_read", target, node)
        elif attribute in _PATH_READS or attribute in _PATH_WRITES:
            assert isinstance(node.func, ast.Attribute)
            target = self.values.text_of(node.func.value)
            self._file_use("fs_read" if attribute in _PATH_READS else "fs_write", target, node)
        elif name in _WRITES:
            self._file_use("fs_read", self.values.text_of(first), node)
            self._file_use("fs_write", self.values.text_of(node.args[1]) if len(node.args) > 1 else None, node)
        elif name in _MAKES:
            self._file_use("fs_write", self.values.text_of(first), node)
            mode_node = node.args[1] if name == "os.chmod" and len(node.args) > 1 else None
            if isinstance(mode_node, ast.Constant) and isinstance(mode_node.value, int) and mode_node.value & 0o6000:
                self.add("sec_privilege", node, f"{name} {mode_node.value:o}")
        elif name in _DELETES:
            self._deleted(node, name, self.values.text_of(first))

    def _deleted(self, node: ast.Call, name: str, target: str | None) -> None:
        self._use("fs_delete", target, node)
        if (
            name == "shutil.rmtree"
            and target is not None
            and target.rstrip("/") in ("", "~", "/home", "/etc", "/usr", "/var", "C:")
        ):
            self.add("sec_destruction", node, f"{name}({target})")
        if id(node) in self._guards:
            self.add("sec_time_bomb", node, name)

    def _file_use(self, kind: str, target: str | None, node: ast.AST) -> None:
        self._use(kind, target, node)
        if not target:
            return
        if kind == "fs_write":
            if places.AUTHORIZED_KEYS.search(target) or target.startswith(
                ("/etc/sudoers", "/etc/passwd", "/etc/ld.so.preload")
            ):
                self.add("sec_persistence", node, target)
            elif places.SHELL_RC.search(target) or places.AUTOSTART_PATHS.search(target):
                self.add("sec_autostart", node, target)
            elif places.AGENT_SETTINGS.search(target):
                self.add("sec_agent_settings", node, target)
        elif places.CREDENTIAL_PATHS.search(target) or places.BROWSER_STORES.search(target):
            self.add("sec_credentials_read", node, target)
        elif GAP in target and places.SYSTEM_PATHS.match(target) and not target.startswith(("/proc/", "/sys/")):
            self.add("sec_system_path", node, target)

    def _sql(self, node: ast.JoinedStr) -> None:
        text = self.values.text_of(node)
        if text is not None and GAP in text and _SQL.match(text) and self._executes:
            inside = [item for item in ast.walk(node) if isinstance(item, ast.Name)]
            if any(item.id in self._parameters for item in inside):
                self.add("sec_sql_text", node, text)


def _called(node: ast.Call) -> str:
    return (
        node.func.attr
        if isinstance(node.func, ast.Attribute)
        else node.func.id
        if isinstance(node.func, ast.Name)
        else ""
    )


def _source(node: ast.AST) -> str:
    try:
        return ast.unparse(node)[:80]
    except (RecursionError, ValueError):
        return "…"


def _is_decoding(values: Values, node: ast.expr) -> bool:
    return any(isinstance(item, ast.Call) and is_decoder(values.name_of(item.func)) for item in ast.walk(node))


def _quoted(words: list[str]) -> str:
    return " ".join(
        "$_" if word in (UNKNOWN, GAP) else "'" + word.replace(GAP, "_").replace("'", "'\\''") + "'" for word in words
    )
