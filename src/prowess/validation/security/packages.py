"""What a skill wants installed (V3): requirements files, pyproject, package.json, script headers, install commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from prowess.validation.security.advisories import Advisories, normalised
from prowess.validation.security.rules import Finding

MAX_WANTED = 5_000
_REQUIREMENT = re.compile(
    r"^\s*([A-Za-z0-9][A-Za-z0-9._-]{0,120})\s*(?:\[[^\]]{0,200}\])?\s*((?:[=<>!~]=?=?\s*[\w.*+!-]{1,60}\s*,?\s*){0,6})"
)
_PEP_723 = re.compile(r"^# /// script\s*$(.{0,4000}?)^# ///\s*$", re.MULTILINE | re.DOTALL)
_INSTALL = re.compile(
    r"\b(?:(?P<pip>(?:uv\s+)?pip3?\s+install|python3?\s+-m\s+pip\s+install|uv\s+add|pipx\s+(?:install|run)|uvx|poetry\s+add)|(?P<npm>(?:npm|pnpm)\s+(?:install|i|add)|yarn\s+add|bun\s+add|npx))\s+([^\n;&|`#]{1,300})"
)
_WORD = re.compile(r"@?[A-Za-z0-9][\w./@~^=<>!-]{0,120}")
HOOKS = ("preinstall", "install", "postinstall", "prepare", "preprepare")
_HOOK_ACTS = re.compile(r"curl|wget|node\s+-e|https?://|bash|\bsh\s|powershell|base64|eval|python", re.IGNORECASE)


class Wanted(NamedTuple):
    """One package asked for; ``version`` is the exact one, or ``""``."""

    ecosystem: str
    name: str
    version: str
    line: int
    whole: str


def read_packages(text: str, path: str, file: str, advisories: Advisories, *, document: bool) -> list[Finding]:
    """The findings of one file; ``path`` is its place in the skill and tells its format."""
    name = path.rpartition("/")[2].lower()
    findings: list[Finding] = []
    wanted: list[Wanted] = []
    if re.fullmatch(r"(?:\w+[-_.])?requirements?(?:[-_.]\w+)?\.(?:txt|in)", name):
        wanted = list(_requirements(text, file, findings))
        document = False
    elif name == "package.json":
        wanted = list(_package_json(text, file, findings))
        document = False
    elif name == "pyproject.toml":
        wanted = list(_toml(text, text, 1))
        document = False
    else:
        header = _PEP_723.search(text) if "# /// script" in text else None
        if header is not None:
            inside = re.sub(r"^# ?", "", header.group(1), flags=re.MULTILINE)
            wanted = list(_toml(inside, inside, _line(text, header.start())))
        if "install" in text or "npx" in text or "uvx" in text or " add " in text:
            wanted += list(_commands(text))
    return findings + judge(wanted[:MAX_WANTED], file, advisories, document=document)


def judge(wanted: list[Wanted], file: str, advisories: Advisories, *, document: bool) -> list[Finding]:
    """What is known of the packages, or looks like a popular one."""
    findings = []
    for item in wanted:
        known = advisories.find(item.ecosystem, item.name) or advisories.find("system", item.name)
        if known is not None and ("*" in known.versions or item.version in known.versions):
            detail = {"id": known.id or "–", "reason": known.what}
            findings.append(Finding("sec_package_malicious", file, item.line, item.whole, document, detail))
            continue
        alike = look_alike(item.ecosystem, item.name, advisories)
        if alike is not None:
            findings.append(Finding("sec_package_look_alike", file, item.line, item.name, document, {"popular": alike}))
    return findings


_KNOWN_NEIGHBOURS = frozenset(
    """request requests3 flask-restx preact vuex nuxt express-ws wsx uuidv4 gloob torchx click8 pytest-mock rich-cli vitest vue-tsc zodx nest mock jose knex koa
    esbuilds reacts chai joi got tslint xo ava tap mocha jest pypdf2 pypdf3 pypdf4 psycopg psycopg3 pyyaml-ft httpx2 htmx httpie tqdm pygame aiohttp3 pip3 pipx piptools
    next-auth boto scapy numba glob2 nextra debugpy lodash-es colorlog colored colors node-fetch-native react-pdf typed txt ruff""".split()
)


def look_alike(ecosystem: str, name: str, advisories: Advisories) -> str | None:
    """The popular package that a name is one slip away from, or ``None``."""
    plain = normalised(ecosystem, name)
    popular = advisories.popular.get(ecosystem, frozenset())
    if plain in popular or plain in _KNOWN_NEIGHBOURS or len(plain) < 5 or plain.startswith("@"):
        return None
    for other in popular:
        if len(other) >= 5 and abs(len(other) - len(plain)) <= 1 and one_slip(plain, other):
            return other
        if len(other) >= 5 and plain != other and re.sub(r"[-_.]", "", plain) == re.sub(r"[-_.]", "", other):
            return other
    return None


def one_slip(one: str, other: str) -> bool:
    """Whether two names differ by one letter put in, left out or changed, or by two neighbours swapped."""
    if len(one) > len(other):
        one, other = other, one
    start = 0
    while start < len(one) and one[start] == other[start]:
        start += 1
    if len(one) == len(other):
        if one[start + 1 :] == other[start + 1 :]:
            return True
        return one[start : start + 2] == other[start : start + 2][::-1] and one[start + 2 :] == other[start + 2 :]
    return len(one) + 1 == len(other) and one[start:] == other[start + 1 :]


def _line(text: str, at: int) -> int:
    return 1 + text.count("\n", 0, at)


def _requirements(text: str, file: str, findings: list[Finding]) -> Iterator[Wanted]:
    for number, row in enumerate(text.split("\n")[:MAX_WANTED], 1):
        line = row.partition(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("-"):
            if re.match(r"(?:-i|--index-url|--extra-index-url|--find-links|--trusted-host)\b", line) and not re.search(
                r"pypi\.org|pytorch\.org|nvidia\.com", line
            ):
                findings.append(Finding("sec_package_index", file, number, line))
            continue
        if "://" in line or line.startswith("git+"):
            findings.append(Finding("sec_package_url", file, number, line))
            continue
        item = _one(line, number)
        if item is not None:
            if not item.version:
                findings.append(Finding("sec_package_unpinned", file, number, line))
            yield item


def _one(line: str, number: int) -> Wanted | None:
    found = _REQUIREMENT.match(line)
    if found is None:
        return None
    exact = re.search(r"(?<![<>!~])={2,3}\s*([\w.+!-]+)", found.group(2))
    return Wanted("pypi", found.group(1), exact.group(1) if exact else "", number, line)


def _toml(text: str, whole: str, first: int) -> Iterator[Wanted]:
    """The requirements of a pyproject.toml, or of the header of a script (PEP 621, PEP 723)."""
    import tomllib

    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    project = content.get("project")
    lists: list[object] = [content.get("dependencies")]
    if isinstance(project, dict):
        extras = project.get("optional-dependencies")
        lists += [project.get("dependencies"), *(extras.values() if isinstance(extras, dict) else ())]
    for names in lists:
        for name in names if isinstance(names, list) else ():
            item = _one(str(name), first + whole.count("\n", 0, max(whole.find(str(name)), 0)))
            if item is not None:
                yield item


def _package_json(text: str, file: str, findings: list[Finding]) -> Iterator[Wanted]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(content, dict):
        return
    scripts = content.get("scripts")
    for hook in HOOKS:
        command = scripts.get(hook) if isinstance(scripts, dict) else None
        if isinstance(command, str):
            code = "sec_install_hook" if _HOOK_ACTS.search(command) and hook != "prepare" else "sec_install_script"
            findings.append(Finding(code, file, _line(text, max(text.find(f'"{hook}"'), 0)), f"{hook}: {command}"))
    for group in ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies"):
        names = content.get(group)
        for name, version in names.items() if isinstance(names, dict) else ():
            line = _line(text, max(text.find(f'"{name}"'), 0))
            version = str(version)
            if "://" in version or version.startswith(("git", "github:")):
                findings.append(Finding("sec_package_url", file, line, f"{name}: {version}"))
            yield Wanted("npm", name, version.lstrip("^~=v"), line, f"{name}@{version}")


def _commands(text: str) -> Iterator[Wanted]:
    count = 0
    for found in _INSTALL.finditer(text):
        ecosystem = "pypi" if found.group("pip") else "npm"
        line = _line(text, found.start())
        for word in found.group(3).split()[:20]:
            if word.startswith("-") or not _WORD.fullmatch(word.strip("\"'")):
                if not word.startswith("-"):
                    break
                continue
            name, version = _split(word.strip("\"'"), ecosystem)
            yield Wanted(ecosystem, name, version, line, word)
            if "npx" in found.group(0)[:4] or "uvx" in found.group(0)[:4]:
                break
        count += 1
        if count > 500:
            return


def _split(word: str, ecosystem: str) -> tuple[str, str]:
    if ecosystem == "npm":
        name, _, version = word[1:].partition("@") if word.startswith("@") else word.partition("@")
        return ("@" + name if word.startswith("@") else name), version
    found = re.match(r"([\w.-]+?)(?:\[.*?\])?(?:[=<>!~@].*)?$", word)
    exact = re.search(r"==([\w.]+)", word)
    return (found.group(1) if found else word), (exact.group(1) if exact else "")
