"""Level 3 over one skill folder (V3): every file is read once and goes through the rules of its language.

Nothing is run, nothing is fetched. Sizes are bounded for each file and for the whole skill, and what is over a bound is
a finding, never a pass. A rule that fails on a file is a finding too: what could not be judged is not passed.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from prowess.skills.skill_md import Draft, inspect_skill_folder
from prowess.skills.skill_md.folder import FoundFile, shown
from prowess.validation.report import LevelResult, Report
from prowess.validation.security import places
from prowess.validation.security.advisories import Advisories, current_advisories
from prowess.validation.security.audit import audit
from prowess.validation.security.characters import decode_tags, read_characters
from prowess.validation.security.credentials import read_credentials
from prowess.validation.security.files import MAX_DOCUMENT_CHARACTERS, MAX_FILE_READ, Content, read_bytes
from prowess.validation.security.hidden import decoded_texts
from prowess.validation.security.javascript import read_script
from prowess.validation.security.markdown import Piece, pieces_of
from prowess.validation.security.packages import read_packages
from prowess.validation.security.prose import read_data, read_markdown, read_piece
from prowess.validation.security.python import read_python
from prowess.validation.security.rules import RULES, Finding, thin_out, verdict_of
from prowess.validation.security.shell import Shell
from prowess.validation.security.texts import read_text
from prowess.validation.security.uses import Use

if TYPE_CHECKING:
    from prowess.skills.manifest import SkillManifest

MAX_SKILL_CHARACTERS = 24 * 1024 * 1024
_SHELL_FENCES = frozenset({"bash", "sh", "shell", "zsh", "console", "shell-session", "terminal", "shellscript"})
_SCRIPT_FENCES = frozenset({"js", "javascript", "ts", "typescript", "mjs", "jsx", "tsx"})
_LOOKS_LIKE_SHELL = re.compile(
    r"^\s*(?:\$ )?(?:curl|wget|sudo|bash|sh|rm|nc|echo|base64|eval|python3?|crontab|chmod|export|powershell|cat)\s",
    re.MULTILINE,
)
_TAGS = re.compile("[\U000e0020-\U000e007e]")
_OVERRIDES = frozenset({"sec_prose_override"})
_INLINE_COMMAND = re.compile(r"`([^`\n]{0,20}(?:curl|wget|base64|/dev/tcp|nc |rm -|eval|crontab|xattr)[^`\n]{0,400})`")
_TEACHES = re.compile(
    r"(?:^|/)(?:tests?|evals?|fixtures?|examples?|samples?|__tests__|benchmarks?|datasets?|rules|patterns|signatures|attacks?|payloads?|corpus)(?:/|[-_.])|(?:tests?|evals?|fixtures?|examples?|rules?|patterns?|attacks?|payloads?)\.\w+$",
    re.IGNORECASE,
)


def check_security(
    path: str | os.PathLike[str] | Draft, *, trust: str | None = None, advisories: Advisories | None = None
) -> Report:
    """Check one skill folder (or the SKILL.md in it, or a draft of it). Raises nothing but a broken list of advisories.

    ``trust`` is where the skill comes from (``levels.TRUST_CAPS``); it caps the level that the manifest may ask for.
    """
    started = time.perf_counter()
    draft = path if isinstance(path, Draft) else inspect_skill_folder(path)
    checker = _Checker(draft, advisories or current_advisories())
    for found in draft.found:
        checker.file(found)
    for note in draft.diagnostics:
        if note.severity == "error" and note.code.startswith(("folder_", "link_", "file_", "path_")):
            checker.findings.append(Finding("sec_unread", note.file, note.line, note.code))
    checker.whole(draft.manifest() if draft.fields is not None else None, trust)
    findings = thin_out(checker.findings)
    issues = sorted(
        (finding.to_issue() for finding in findings), key=lambda issue: (_RANK[issue.severity], issue.file, issue.line)
    )
    elapsed = (time.perf_counter() - started) * 1000
    result = LevelResult(verdict_of(findings), len(RULES), elapsed)
    return Report(draft.folder, draft.id, {"security": result}, tuple(issues))


_RANK = {"error": 0, "warning": 1, "info": 2}


class _Checker:
    def __init__(self, draft: Draft, advisories: Advisories) -> None:
        self.findings: list[Finding] = []
        self.uses: list[Use] = []
        self._draft = draft
        self._advisories = advisories
        self._left = MAX_SKILL_CHARACTERS

    def file(self, found: FoundFile) -> None:
        """Read and judge one file."""
        file = shown(found.location)
        if found.size > MAX_FILE_READ:
            self.findings.append(Finding("sec_document_too_large", file, 1, str(found.size)))
            return
        data = self._draft.contents.get(found.path)
        if data is None:
            try:
                with open(found.location, "rb") as stream:  # noqa: PTH123 -- the scan has resolved and judged the place
                    data = stream.read(MAX_FILE_READ + 1)
            except OSError:
                return  # level 1 reports what cannot be read
        content, findings = read_bytes(found.path, data, file)
        self.findings += findings
        if content is None or content.language == "skip":
            return
        if len(content.text) > min(MAX_DOCUMENT_CHARACTERS, self._left):
            self.findings.append(Finding("sec_document_too_large", file, 1, str(len(content.text))))
            content = content._replace(text=content.text[: min(MAX_DOCUMENT_CHARACTERS, self._left)])
        self._left -= len(content.text)
        try:
            self._content(content, file)
        except (RecursionError, MemoryError):
            self.findings.append(Finding("sec_too_deep", file, 1))

    def _content(self, content: Content, file: str) -> None:
        text, language = content.text, content.language
        runs = language in ("python", "shell", "script", "text")
        self.findings += read_characters(text, file, code=runs)
        self.findings += read_credentials(text, file, document=not runs)
        self.findings += read_packages(text, content.path, file, self._advisories, document=language == "markdown")
        self._hidden(text, file, content.path)
        if language == "markdown":
            self._markdown(content, file)
        elif language == "data":
            self._data(content, file)
        elif language == "python":
            self._take(*read_python(text, file))
        elif language == "shell":
            shell = Shell(text, file).run()
            self._take(shell.findings, shell.uses)
        elif language == "script":
            self._take(*read_script(text, file))
        else:
            self.findings += read_text(text, file, document=False)
        if runs:
            self._comments(text, file, content.path)

    def _take(self, findings: list[Finding], uses: list[Use]) -> None:
        self.findings += findings
        self.uses += uses

    def _comments(self, text: str, file: str, path: str) -> None:
        """A script may speak to the agent too; what it says to override it is reviewed."""
        if _TEACHES.search(path):
            return
        if len(text) < 200_000:
            for item in read_piece(Piece("prose", text, 1), file, _OVERRIDES):
                if item.code == "sec_prose_override":
                    self.findings.append(Finding("sec_prose_authority", item.file, item.line, item.what))

    # ---- documents

    def _markdown(self, content: Content, file: str) -> None:
        text = content.text
        front, body, line = _split_front(text)
        if front:
            self.findings += read_data(front, file, teaching=False)
        pieces = pieces_of(body, line)
        self.findings += read_markdown(body, pieces, file, line)
        for piece in pieces:
            if piece.kind == "code":
                self._fence(piece, file)
        for found in _INLINE_COMMAND.finditer(body):
            place = line + body.count("\n", 0, found.start())
            sentence = body[max(0, found.start() - 80) : found.start()].rpartition("\n")[2]
            if not re.search(
                r"(?i)never|don['’]?t|avoid|block|den(?:y|ied)|reject|danger|malicious|detect|e\.g\.|such as|flag|不要|禁止|危险|例如",
                sentence,
            ):
                self.findings += _only_serious(Shell(found.group(1), file, place, document=True).run().findings)
        self._addresses(body, file, line, document=True)

    def _fence(self, piece: Piece, file: str) -> None:
        warned = (
            re.search(
                r"(?i)bad|wrong|never|don['’]?t|avoid|danger|attack|malicious|vulnerab|unsafe|anti-?pattern|insecure|exploit|❌|攻击|危险|错误|反例",
                piece.heading,
            )
            is not None
        )
        found: list[Finding] = []
        if piece.info in _SHELL_FENCES or (not piece.info and _LOOKS_LIKE_SHELL.search(piece.text)):
            text = re.sub(r"^\s*[$>] ", "", piece.text, flags=re.MULTILINE)
            found = Shell(text, file, piece.line, document=True).run().findings
        elif piece.info in ("python", "py", "python3"):
            import textwrap

            found, _ = read_python(textwrap.dedent(piece.text), file, piece.line, document=True)
        elif piece.info in _SCRIPT_FENCES:
            found, _ = read_script(piece.text, file, piece.line, document=True)
        elif piece.info in ("json", "yaml", "yml", "jsonc"):
            found = read_text(piece.text, file, piece.line, document=True, data=True)
        elif piece.info in ("powershell", "ps1", "pwsh", "batch", "cmd", "php", "ruby", "perl", "bat"):
            found = read_text(piece.text, file, piece.line, document=True)
        shown_as_bad = warned or re.search(
            r"(?i)#\s*(?:❌|bad\b|wrong|never|don['’]?t|vulnerable|unsafe|dangerous|attacker|malicious)|//\s*(?:❌|bad\b|wrong|unsafe|vulnerable)",
            piece.text,
        )
        self.findings += [item for item in found if not shown_as_bad or item.weight == "critical"]

    def _data(self, content: Content, file: str) -> None:
        teaching = _TEACHES.search(content.path) is not None
        if len(content.text) <= 400_000:
            self.findings += read_data(content.text, file, teaching=teaching)
        if content.path.endswith((".svg", ".html", ".htm", ".xml")):
            for piece in pieces_of(content.text):
                if piece.kind in ("comment", "hidden"):
                    self.findings += read_piece(piece, file)
        self.findings += read_text(content.text, file, document=teaching, data=True)
        self._addresses(
            content.text, file, 1, document=teaching or content.path.endswith((".html", ".txt", ".csv", ".xml", ".svg"))
        )

    def _addresses(self, text: str, file: str, first: int, *, document: bool) -> None:
        if "://" not in text:
            return
        for found in re.finditer(r"https?://[^\s\"'<>)\]`]{4,200}", text):
            if places.MESSAGE_HOOKS.search(found.group()) or places.DROP_HOSTS.match(found.group().partition("://")[2]):
                self.findings.append(
                    Finding("sec_drop_host", file, first + text.count("\n", 0, found.start()), found.group(), document)
                )
            elif any(places.is_bare_address(host) for host in places.hosts_in(found.group())):
                self.findings.append(
                    Finding(
                        "sec_bare_address", file, first + text.count("\n", 0, found.start()), found.group(), document
                    )
                )

    def _hidden(self, text: str, file: str, path: str) -> None:
        tags = decode_tags("".join(_TAGS.findall(text))) if not text.isascii() else ""
        if tags:
            found = read_piece(Piece("prose", tags, 1), file)
            self.findings += [
                Finding("sec_prose_hidden", file, 1, item.what) for item in found if item.code != "sec_prose_quoted"
            ]
        for hidden in decoded_texts(text):
            if hidden.acts:
                self.findings.append(Finding("sec_encoded_text", file, hidden.line, hidden.text))
                continue
            if not _TEACHES.search(path):
                read = read_piece(Piece("prose", hidden.text, hidden.line), file)
                if any(item.code != "sec_prose_quoted" for item in read):
                    self.findings.append(Finding("sec_encoded_text", file, hidden.line, hidden.text))

    # ---- the skill as a whole

    def whole(self, manifest: SkillManifest | None, trust: str | None) -> None:
        """The audit, and flows from one file to another."""
        self.findings += audit(self._draft, manifest, self.uses, trust)
        if manifest is not None:
            self._packages_of(manifest)
        secret = next((use for use in self.uses if use.kind == "secret"), None)
        send = next((use for use in self.uses if use.kind == "send"), None)
        if (
            secret is not None
            and send is not None
            and not any(item.code == "sec_exfiltration" for item in self.findings)
        ):
            what = f"{secret.target} → {send.target}"
            self.findings.append(Finding("sec_exfiltration_parts", secret.file, secret.line, what))

    def _packages_of(self, manifest: SkillManifest) -> None:
        from prowess.validation.security.packages import Wanted, judge

        wanted = []
        for index, package in enumerate(manifest.dependencies.packages):
            for ecosystem, name in package.items():
                plain = {"pip": "pypi", "python": "pypi", "pypi": "pypi", "npm": "npm", "node": "npm"}.get(
                    ecosystem.lower(), "system"
                )
                file, line = (
                    self._draft.fields.place("dependencies", "packages", index) if self._draft.fields else None
                ) or (self._draft.file, 1)
                title, _, version = (
                    str(name).replace("==", "@").partition("@")
                    if not str(name).startswith("@")
                    else (str(name), "", "")
                )
                wanted.append((file, Wanted(plain, title.strip(), version.strip(), line, str(name))))
        for file, item in wanted:
            self.findings += judge([item], file, self._advisories, document=False)


def _only_serious(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.weight in ("critical", "high")]


def _split_front(text: str) -> tuple[str, str, int]:
    if text.startswith("---\n"):
        end = text.find("\n---", 4)
        if end >= 0:
            after = text.find("\n", end + 1)
            after = len(text) if after < 0 else after + 1
            return text[4:end], text[after:], 1 + text.count("\n", 0, after)
    return "", text, 1
