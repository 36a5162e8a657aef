"""What a shell script does (V3, C40): rules on pipelines of resolved programs, and what they use for the audit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prowess.validation.security import places
from prowess.validation.security.commands import DOWNLOADERS, INTERPRETERS, SHELLS, Program, resolve
from prowess.validation.security.rules import Finding
from prowess.validation.security.uses import Use
from prowess.validation.security.words import UNKNOWN, Command, Pipeline, pipelines

MAX_SHELL_CHARACTERS = 256 * 1024

_DECODERS = frozenset("base64 base32 xxd openssl uudecode gunzip zcat rev tr".split())
_ASKERS = frozenset("nslookup dig host ping drill getent".split())
_TALKERS = frozenset("nc ncat netcat telnet socat".split())
_ROOTS = re.compile(
    r"/|/\*|~/?|~/\*|/\.\*?|\*|\.|/(?:etc|usr|var|home|boot|bin|lib|root|Users|System|opt)(?:/\*?)?|[A-Z]:[/\\]?\*?",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"of=/dev/(?:sd|hd|nvme|vd|mmcblk|disk|mapper|xvd)")
_DISKS = re.compile(r"/dev/(?:sd|hd|nvme|vd|mmcblk|disk|xvd)")
_FORK_BOMB = re.compile(r"(\S{1,20})\s*\(\)\s*\{\s*\1\s*\|\s*\1\s*&\s*\}\s*;?\s*\1")
_TCP = re.compile(r"/dev/(?:tcp|udp)/")
_MINER = re.compile(
    r"\b(?:xmrig|xmr-stak|cpuminer|minerd|ethminer|nbminer|t-rex|lolminer|phoenixminer)\b|stratum\+(?:tcp|ssl)://|--donate-level\b",
    re.IGNORECASE,
)
_SUID = re.compile(r"(?:[ugo]*\+[rwx]*s|[246]7[0-7]{2})")
_INLINE_SHELL = re.compile(
    r"socket.{0,200}(?:dup2|subprocess|exec|/bin/(?:ba)?sh|pty\.spawn)|pty\.spawn", re.IGNORECASE | re.DOTALL
)
_INLINE_DECODE = re.compile(
    r"(?:exec|eval)\s*\(.{0,200}(?:b64decode|fromhex|decompress|atob|unhexlify)|FromBase64String|-enc(?:odedcommand)?\b",
    re.IGNORECASE | re.DOTALL,
)
_SENDS_BODY = re.compile(
    r"(?:-d|--data(?:-binary|-raw|-urlencode)?|-F|--form|-T|--upload-file|--post-file|--post-data|--body-file)(?:=|$)"
)
_LD = frozenset(
    "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES PYTHONSTARTUP BASH_ENV PROMPT_COMMAND NODE_OPTIONS".split()
)

_PROTECTION_OFF = re.compile(
    r"""^(?:setenforce\s0 | ufw\sdisable | iptables\s(?:-F|--flush) | nft\sflush\sruleset | csrutil\sdisable
    | spctl\s--(?:master|global)-disable | systemctl\s(?:stop|disable|mask)\s(?:--now\s)?(?:auditd|apparmor|firewalld|ufw|falcon|clamav|crowdstrike|rsyslog)
    | xattr\s(?:-\w+\s)*-?\w*[dcr]\w*\s(?:-\w+\s)*com\.apple\.quarantine | xattr\s-c?r?c\s | history\s-c | unset\sHISTFILE | auditctl\s-e\s?0
    | (?:set|add)-mppreference | netsh\sadvfirewall\sset\s\w+\sstate\soff | sc\s(?:stop|config)\swindefend
    | (?:claude|codex|gemini)\s.*(?:--dangerously-skip-permissions|--dangerously-bypass-approvals-and-sandbox|--yolo)
    | truncate\s.*?/var/log | rm\s.*?(?:\.bash_history|/var/log) )""",
    re.VERBOSE | re.IGNORECASE,
)
_TLS_OFF = re.compile(
    r"^(?:curl|wget)\s.*(?:\s-k\b|--insecure|--no-check-certificate)|http\.sslverify\s?=?\s?false|strict-ssl\sfalse",
    re.IGNORECASE,
)
_PACKAGE_INDEX = re.compile(
    r"--(?:extra-)?index-url[= ]\S+|--registry[= ]\S+|--trusted-host|pip\sconfig\sset\s.*index|npm\sconfig\sset\sregistry",
    re.IGNORECASE,
)
_OWN_INDEXES = re.compile(
    r"pypi\.org|registry\.npmjs\.org|download\.pytorch\.org|pypi\.nvidia\.com|registry\.yarnpkg\.com|wheels\.|\.github\.io|npmmirror\.com|tsinghua\.edu\.cn|mirrors\.aliyun\.com|127\.0\.0\.1|localhost",
    re.IGNORECASE,
)
_RISKY_INSTALL_FLAG = re.compile(r"^pip3?\s.*--break-system-packages", re.IGNORECASE)


class Shell:
    """The rules over one script. ``findings`` and ``uses`` are filled by ``run``."""

    def __init__(self, text: str, file: str, line: int = 1, *, document: bool = False) -> None:
        self.findings: list[Finding] = []
        self.uses: list[Use] = []
        self._text = text
        self._file = file
        self._line = line
        self._document = document
        self._secret_variables: set[str] = set()
        self._downloaded: dict[str, str] = {}

    def run(self) -> Shell:
        """Apply all rules."""
        if len(self._text) > MAX_SHELL_CHARACTERS:
            self._add("sec_too_large", self._line, f"{len(self._text)}")
        text = self._text[:MAX_SHELL_CHARACTERS]
        found = _FORK_BOMB.search(text)
        if found is not None:
            self._add("sec_destruction", self._line + text.count("\n", 0, found.start()), found.group())
        for pipe in pipelines(text, self._line):
            self._pipeline(pipe)
        return self

    def _add(self, code: str, line: int, what: str) -> None:
        self.findings.append(Finding(code, self._file, line, what, self._document))

    def _use(self, kind: str, target: str, line: int) -> None:
        self.uses.append(Use(kind, target, self._file, line))

    def _pipeline(self, pipe: Pipeline) -> None:
        stages = [(command, list(resolve(command))) for command in pipe]
        self._flow(pipe, stages)
        for command, programs in stages:
            self._command(command, programs)
            for inner in command.inner:
                self._pipeline(inner)

    # ---- flows between the stages of a pipeline

    def _flow(self, pipe: Pipeline, stages: list[tuple[Command, list[Program]]]) -> None:
        downloaded: str | None = None
        decoded = secret = False
        every = [{program.name for program in programs} for _, programs in stages]
        if any(names & SHELLS for names in every) and any(names & _TALKERS for names in every):
            self._add("sec_reverse_shell", pipe[0].line, self._shown(pipe))
        for command, programs in stages:
            names = {program.name for program in programs}
            text = command.text
            runs = next((item for item in programs if item.name in INTERPRETERS and _reads_input(item)), None)
            if runs is not None and (downloaded is not None or decoded):
                if downloaded is not None:
                    self._download_run(downloaded, command.line, self._shown(pipe))
                if decoded:
                    self._add("sec_decode_run", command.line, self._shown(pipe))
            if command.document and runs is not None and runs.name in SHELLS:
                self._nested(command.document, command.line)
            if names & DOWNLOADERS:
                downloaded = text
                if secret and _sends(programs):
                    self._add("sec_exfiltration", command.line, self._shown(pipe))
            if names & {"nc", "ncat", "netcat", "socat", "telnet", "mail", "sendmail"} and secret:
                self._add("sec_exfiltration", command.line, self._shown(pipe))
            decoded |= bool(names & {"base64", "base32", "xxd", "uudecode"}) and _decodes(text)
            secret |= self._is_secret(command, programs)

    def _nested(self, script: str, line: int) -> None:
        inner = Shell(script, self._file, line + 1, document=self._document).run()
        self.findings += inner.findings
        self.uses += inner.uses

    @staticmethod
    def _shown(pipe: Pipeline) -> str:
        return " | ".join(command.text for command in pipe)

    def _is_secret(self, command: Command, programs: list[Program]) -> bool:
        text = command.text
        variables = set(command.sources.replace("$", "").split())
        if variables & self._secret_variables:
            return True
        for program in programs:
            line = " ".join(program.arguments)
            if program.name in ("env", "printenv", "set", "export", "declare") and not program.arguments:
                return True
            if (
                program.name
                in (
                    "cat",
                    "tar",
                    "zip",
                    "base64",
                    "xxd",
                    "head",
                    "cp",
                    "find",
                    "grep",
                    "gzip",
                    "openssl",
                    "sed",
                    "awk",
                    "less",
                    "od",
                )
                and _names_credentials(line)
                and ".pub" not in line
            ):
                return True
            if program.name == "security" and "find-generic-password" in line:
                return True
        return any(operator == "<" and _names_credentials(target) for operator, target in command.redirects) or bool(
            _names_credentials(text) and "@" in text
        )

    def _download_run(self, text: str, line: int, shown: str) -> None:
        hosts = places.hosts_in(text)
        if any(places.is_bare_address(host) for host in hosts) or places.DROP_HOSTS.search(text):
            self._add("sec_download_run", line, shown)
        elif hosts and all(places.is_installer_host(host) for host in hosts):
            self._add("sec_download_run_known", line, shown)
        elif re.search(r"\bhttp://(?!localhost|127\.)", text):
            self._add("sec_download_run", line, shown)
        elif hosts and all(host in ("localhost", "127.0.0.1") for host in hosts):
            return
        else:
            self._add("sec_download_run_unknown", line, shown)

    # ---- one command

    def _command(self, command: Command, programs: list[Program]) -> None:
        text = command.text
        for name, value in command.assigns:
            self._assigned(name, value, command)
        for program in programs:
            self._program(program, text)
        self._substituted(command, programs)
        for operator, target in command.redirects:
            self._redirect(operator, target, command.line, text)
        if _TCP.search(text):
            self._add("sec_reverse_shell", command.line, text)
        if _MINER.search(text):
            self._add("sec_miner", command.line, text)

    def _assigned(self, name: str, value: str, command: Command) -> None:
        inner = [program for pipe in command.inner for item in pipe for program in resolve(item)]
        if any(self._is_secret(item, list(resolve(item))) for pipe in command.inner for item in pipe):
            self._secret_variables.add(name)
        if name in _LD and (name not in ("LD_LIBRARY_PATH", "NODE_OPTIONS") or "/tmp" in value or "--require" in value):
            self._add("sec_environment_poison", command.line, f"{name}={value}")
        if name == "NODE_TLS_REJECT_UNAUTHORIZED" and value == "0":
            self._add("sec_tls_off", command.line, f"{name}={value}")
        if name == "HISTFILE" and value in ("", "/dev/null"):
            self._add("sec_protection_off", command.line, f"{name}={value}")
        if any(program.name in DOWNLOADERS for program in inner):
            self._downloaded["$" + name] = " ".join(item.text for pipe in command.inner for item in pipe)

    def _program(self, program: Program, whole: str) -> None:
        name, arguments = program.name, program.arguments
        line = " ".join(arguments)
        text = f"{name} {line}"
        self._use("command", name, program.line)
        if name in ("export", "declare", "typeset", "setx"):
            for word in arguments:
                variable, equals, value = word.partition("=")
                if equals:
                    self._assigned(variable, value, program.command)
        handler = _HANDLERS.get(name)
        if handler is not None:
            for code in handler(arguments, line):
                self._add(code, program.line, whole)
        if _PROTECTION_OFF.search(text):
            self._add("sec_protection_off", program.line, whole)
        if _TLS_OFF.search(text):
            self._add("sec_tls_off", program.line, whole)
        if (
            name in ("pip", "npm", "uv", "pnpm", "yarn", "python")
            and _PACKAGE_INDEX.search(line)
            and not _OWN_INDEXES.search(line)
        ):
            self._add("sec_package_index", program.line, whole)
        if name in INTERPRETERS:
            self._inline(program, line, whole)
        if name in DOWNLOADERS:
            self._network(program, line, whole)
        self._files(program, line, whole)
        self._run_downloaded(program, whole)

    def _inline(self, program: Program, line: int | str, whole: str) -> None:
        joined = " ".join(program.arguments)
        if program.name in ("python", "perl", "ruby", "php", "node") and _INLINE_SHELL.search(joined):
            self._add("sec_reverse_shell", program.line, whole)
        if _INLINE_DECODE.search(joined) and (program.name != "python" or "-c" in program.arguments):
            self._add("sec_decode_run", program.line, whole)

    def _network(self, program: Program, line: str, whole: str) -> None:
        for host in places.hosts_in(line):
            self._use("network", host, program.line)
            if places.is_bare_address(host):
                self._add("sec_bare_address", program.line, whole)
        if UNKNOWN in line and not places.hosts_in(line):
            self._use("network", "*", program.line)
        if places.DROP_HOSTS.search(line) or places.MESSAGE_HOOKS.search(line):
            self._add("sec_drop_host", program.line, whole)
        sends = _sends([program])
        variables = set(program.command.sources.replace("$", "").split())
        secret = _names_credentials(line) or bool(variables & self._secret_variables)
        inner = any(self._is_secret(item, list(resolve(item))) for pipe in program.command.inner for item in pipe)
        if (sends and (secret or (places.DOT_ENV.search(line) and "@" in line))) or (inner and places.hosts_in(line)):
            self._add("sec_exfiltration", program.line, whole)
        for index, word in enumerate(program.arguments[:-1]):
            if word in ("-o", "--output", "-O", "-OutFile") and not program.arguments[index + 1].startswith("http"):
                self._downloaded[_base(program.arguments[index + 1])] = line
            if (
                re.fullmatch(r"-[a-zA-Z]*[oO]|--output(?:-document)?|-OutFile", word)
                and UNKNOWN in program.arguments[index + 1]
            ):
                for name in program.command.sources.split():
                    self._downloaded[name] = line
        if "-O" in program.arguments or program.name == "wget" or "-LO" in line or "-sO" in line:
            for word in program.arguments:
                if word.startswith("http"):
                    self._downloaded[_base(word)] = line

    def _run_downloaded(self, program: Program, whole: str) -> None:
        candidates = [program.command.words[0]] if program.command.words else []
        if program.name in INTERPRETERS or program.name in (".", "source"):
            candidates += program.arguments[:1]
        for word in candidates:
            source = self._downloaded.get(_base(word))
            if source is not None and ("/" in word or program.name in INTERPRETERS):
                self._download_run(source, program.line, whole)
        if candidates and candidates[-1] == UNKNOWN and program.name in (UNKNOWN, *INTERPRETERS):
            names = program.command.sources.split()
            source = self._downloaded.get(names[0]) if names else None
            if source is not None:
                self._download_run(source, program.line, whole)

    def _substituted(self, command: Command, programs: list[Program]) -> None:
        """``sh -c "$(curl …)"``, ``eval "$(… | base64 -d)"``, ``bash <(curl …)``, ``nslookup $(env).host``."""
        inner = [item for pipe in command.inner for item in pipe]
        names = {program.name for item in inner for program in resolve(item)}
        outer = {program.name for program in programs[:3]} - {
            program.name for item in inner for program in resolve(item)
        }
        shown = command.text + " ← " + " | ".join(item.text for item in inner)
        runs = bool(outer & (INTERPRETERS | {"eval", "source", "."}))
        if runs and names & DOWNLOADERS:
            self._download_run(" ".join(item.text for item in inner), command.line, shown)
        if (runs or UNKNOWN in outer) and names & {"base64", "base32", "xxd"} and _decodes(shown):
            self._add("sec_decode_run", command.line, shown)
        named = set(command.sources.replace("$", "").split()) & self._secret_variables
        if outer & _ASKERS and (
            named
            or any(
                self._is_secret(item, list(resolve(item))) or "whoami" in item.text or "cat" in item.words[:1]
                for item in inner
            )
        ):
            self._add("sec_exfiltration", command.line, shown)
        for program in programs:
            if program.name == "eval":
                for name in command.sources.replace("$", "").split():
                    if "$" + name in self._downloaded:
                        self._download_run(self._downloaded["$" + name], command.line, shown)

    def _redirect(self, operator: str, target: str, line: int, text: str) -> None:
        if ">" not in operator or target.isdigit() or target.startswith(("&", "/dev/null", "/dev/std")):
            if operator == "<":
                self._use("fs_read", target, line)
            return
        self._use("fs_write", target, line)
        self._written(target, line, text)

    def _written(self, target: str, line: int, text: str) -> None:
        if places.AUTHORIZED_KEYS.search(target) or re.search(
            r"/etc/(?:sudoers|passwd|shadow|ld\.so\.preload)", target
        ):
            self._add("sec_persistence", line, text)
        elif places.SHELL_RC.search(target) or places.AUTOSTART_PATHS.search(target):
            self._add("sec_autostart", line, text)
        elif places.AGENT_SETTINGS.search(target):
            self._add("sec_agent_settings", line, text)
        elif _DISKS.search(target):
            self._add("sec_destruction", line, text)

    def _files(self, program: Program, line: str, whole: str) -> None:
        arguments = [word for word in program.arguments if not word.startswith("-")]
        if program.name in ("cat", "head", "tail", "less", "grep", "sed", "awk", "source", ".", "cp", "mv", "tar"):
            for word in arguments[-3:]:
                if "/" in word or "." in word:
                    self._use("fs_read", word, program.line)
            if _names_credentials(line):
                self._add("sec_credentials_read", program.line, whole)
        if program.name in ("tee", "cp", "mv", "install", "ln", "rsync") and arguments:
            target = arguments[-1]
            self._use("fs_write", target, program.line)
            self._written(target, program.line, whole)
        if program.name in ("rm", "rmdir", "unlink", "shred"):
            for word in arguments:
                self._use("fs_delete", word, program.line)
        if program.name in ("mkdir", "touch", "chmod", "chown"):
            for word in arguments[-1:]:
                self._use("fs_write", word, program.line)


def _base(word: str) -> str:
    return word.rstrip("/").partition("?")[0].rpartition("/")[2]


def _names_credentials(text: str) -> bool:
    return places.CREDENTIAL_PATHS.search(text) is not None or places.BROWSER_STORES.search(text) is not None


def _reads_input(program: Program) -> bool:
    """Whether an interpreter runs what comes in: no script and no ``-c`` given."""
    for word in program.arguments:
        if word in ("-", "-s", "/dev/stdin"):
            return True
        if word in ("-c", "-e", "-m", "-r"):
            return False
        if not word.startswith("-"):
            return False
    return True


def _decodes(text: str) -> bool:
    return (
        re.search(
            r"(?:base64|base32)\s+(?:-\w*[dD]\w*|--decode)|xxd\s+-\w*r|uudecode|openssl\s+(?:enc|base64)\s.*-d", text
        )
        is not None
    )


def _sends(programs: list[Program]) -> bool:
    for program in programs:
        if program.name in DOWNLOADERS and any(_SENDS_BODY.match(word) for word in program.arguments):
            return True
        if program.name in DOWNLOADERS and re.search(
            r"-X\s?(?:POST|PUT)|-Method\s+Post", " ".join(program.arguments), re.IGNORECASE
        ):
            return True
    return False


def _rm(arguments: list[str], line: str) -> Iterator[str]:
    flags = "".join(word for word in arguments if word.startswith("-"))
    if re.search(r"r|R|--recursive", flags) or "--no-preserve-root" in flags:
        for word in arguments:
            if _ROOTS.fullmatch(word) and (word not in (".", "*") or ("f" in flags and word == "~")):
                yield "sec_destruction"


def _find(arguments: list[str], line: str) -> Iterator[str]:
    """``find ~ -delete`` and ``find / -exec rm``, with nothing that narrows what is found."""
    if not (arguments and _ROOTS.fullmatch(arguments[0]) and arguments[0] not in (".", "*")):
        return
    narrows = (
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-regex",
        "-mtime",
        "-mmin",
        "-atime",
        "-size",
        "-newer",
        "-empty",
        "-maxdepth",
    )
    if re.search(r"-delete\b|-exec(?:dir)?\s+(?:rm|shred|unlink)\b", line) and not any(
        word in narrows for word in arguments
    ):
        yield "sec_destruction"


def _dd(arguments: list[str], line: str) -> Iterator[str]:
    if _DEVICE.search(line):
        yield "sec_destruction"


def _always_destroys(arguments: list[str], line: str) -> Iterator[str]:
    if "/dev/" in line:
        yield "sec_destruction"


def _netcat(arguments: list[str], line: str) -> Iterator[str]:
    if re.search(r"(?:^|\s)-\w*[ec]\s*\S*(?:sh|cmd)|--(?:sh-)?exec|EXEC:|exec:", line):
        yield "sec_reverse_shell"


def _crontab(arguments: list[str], line: str) -> Iterator[str]:
    if not any(word in ("-l", "-r") for word in arguments):
        yield "sec_autostart"


def _systemctl(arguments: list[str], line: str) -> Iterator[str]:
    if "enable" in arguments and "--user" in arguments:
        yield "sec_autostart"


def _chmod(arguments: list[str], line: str) -> Iterator[str]:
    if arguments and _SUID.fullmatch(arguments[0]):
        yield "sec_privilege"


def _sudo(arguments: list[str], line: str) -> Iterator[str]:
    yield "sec_sudo"


def _git(arguments: list[str], line: str) -> Iterator[str]:
    if re.search(
        r"config\s.*(?:core\.(?:hookspath|fsmonitor|sshcommand|pager)|credential\.helper\s+!|url\..*insteadof)",
        line,
        re.IGNORECASE,
    ):
        yield "sec_environment_poison"


def _launchctl(arguments: list[str], line: str) -> Iterator[str]:
    if arguments[:1] in (["load"], ["bootstrap"], ["submit"]):
        yield "sec_autostart"


def _useradd(arguments: list[str], line: str) -> Iterator[str]:
    yield "sec_privilege"


def _schtasks(arguments: list[str], line: str) -> Iterator[str]:
    if re.search(r"/create|currentversion\\+run", line, re.IGNORECASE):
        yield "sec_autostart"


_HANDLERS = {
    "find": _find,
    "rm": _rm,
    "dd": _dd,
    "mkfs": _always_destroys,
    "mkfs.ext4": _always_destroys,
    "wipefs": _always_destroys,
    "shred": _always_destroys,
    "nc": _netcat,
    "ncat": _netcat,
    "netcat": _netcat,
    "socat": _netcat,
    "crontab": _crontab,
    "systemctl": _systemctl,
    "chmod": _chmod,
    "sudo": _sudo,
    "doas": _sudo,
    "git": _git,
    "launchctl": _launchctl,
    "useradd": _useradd,
    "usermod": _useradd,
    "visudo": _useradd,
    "schtasks": _schtasks,
    "reg": _schtasks,
}
