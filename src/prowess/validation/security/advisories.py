"""The list of packages known to be malicious or hijacked: one ships with Prowess, another may take its place (V3).

The file is JSON: ``{"format": 1, "date", "source", "popular": {ecosystem: [name]}, "advisories": [{"ecosystem", "name",
"versions": ["1.0" … or "*"], "id", "what"}]}``. Nothing is fetched: whoever wants a newer list brings it as a file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from prowess.errors import InvalidInput

MAX_BYTES = 16 * 1024 * 1024
MAX_ADVISORIES = 200_000
ECOSYSTEMS = ("pypi", "npm", "system")
FILE_NAME = "advisories.json"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Advisory:
    """One package known to be bad; ``versions`` holds ``*`` where all of them are."""

    versions: frozenset[str]
    id: str
    what: str


@dataclass(frozen=True)
class Advisories:
    """A checked list; ``raw`` is the content that the version of the rules is computed from."""

    date: str
    known: dict[tuple[str, str], Advisory]
    popular: dict[str, frozenset[str]]
    raw: bytes

    def find(self, ecosystem: str, name: str) -> Advisory | None:
        """What is known of a package, by its normalised name."""
        return self.known.get((ecosystem, normalised(ecosystem, name)))


def normalised(ecosystem: str, name: str) -> str:
    """A package's name as its registry compares it (PEP 503 for PyPI)."""
    return re.sub(r"[-_.]+", "-", name).lower() if ecosystem == "pypi" else name.lower()


def parse_advisories(data: bytes, file: str) -> Advisories:
    """Read and check a list. Raises ``InvalidInput`` (``advisories_invalid``) with the place of the fault."""
    if len(data) > MAX_BYTES:
        raise _fault(file, "size", f"more than {MAX_BYTES} bytes")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _fault(file, "JSON", str(error)[:120]) from None
    if not isinstance(content, dict) or content.get("format") != 1:
        raise _fault(file, "format", "1 is expected")
    date = content.get("date")
    if not isinstance(date, str) or not _DATE.fullmatch(date):
        raise _fault(file, "date", "YYYY-MM-DD is expected")
    entries = content.get("advisories")
    if not isinstance(entries, list) or len(entries) > MAX_ADVISORIES:
        raise _fault(file, "advisories", f"a list of at most {MAX_ADVISORIES} is expected")
    known = dict(_entry(entry, index, file) for index, entry in enumerate(entries))
    return Advisories(date, known, _popular(content.get("popular"), file), data)


def _entry(entry: Any, index: int, file: str) -> tuple[tuple[str, str], Advisory]:
    place = f"advisories[{index}]"
    if not isinstance(entry, dict) or entry.get("ecosystem") not in ECOSYSTEMS:
        raise _fault(file, f"{place}.ecosystem", "one of " + ", ".join(ECOSYSTEMS))
    name, versions = entry.get("name"), entry.get("versions")
    if not isinstance(name, str) or not 1 <= len(name) <= 214:
        raise _fault(file, f"{place}.name", "a name is expected")
    if (
        not isinstance(versions, list)
        or not versions
        or not all(isinstance(item, str) and len(item) <= 80 for item in versions)
    ):
        raise _fault(file, f"{place}.versions", "a list of versions is expected")
    known = Advisory(frozenset(versions), str(entry.get("id", ""))[:80], str(entry.get("what", ""))[:200])
    return (entry["ecosystem"], normalised(entry["ecosystem"], name)), known


def _popular(content: Any, file: str) -> dict[str, frozenset[str]]:
    if not isinstance(content, dict) or not all(isinstance(names, list) for names in content.values()):
        raise _fault(file, "popular", "lists of names by ecosystem are expected")
    return {str(ecosystem): frozenset(str(name) for name in names[:5_000]) for ecosystem, names in content.items()}


def _fault(file: str, place: str, problem: str) -> InvalidInput:
    return InvalidInput("advisories_invalid", file=file, place=place, problem=problem)


def own_copy() -> Path:
    """Where a list that replaces the shipped one is kept: the data folder of Prowess."""
    from platformdirs import user_data_path

    return user_data_path("prowess", appauthor=False) / FILE_NAME


@lru_cache(maxsize=4)
def _read(path: str, changed: int) -> Advisories:
    return parse_advisories(Path(path).read_bytes(), path)


def current_advisories() -> Advisories:
    """The operator's own list where there is one, else the shipped one. Raises ``InvalidInput`` for one that is broken."""
    for place in (own_copy(), Path(__file__).with_name("data") / FILE_NAME):
        try:
            changed = place.stat().st_mtime_ns
        except OSError:
            continue
        return _read(str(place), changed)
    raise InvalidInput("advisories_invalid", file=FILE_NAME, place="file", problem="not found")


def replace_advisories(source: Path, target: Path | None = None) -> Advisories:
    """Check a list and put it in the place of the present one, whole or not at all. Raises ``InvalidInput``."""
    try:
        with source.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput("not_readable", file=str(source), cause=error.strerror or str(error)) from None
    checked = parse_advisories(data, str(source))
    place = target or own_copy()
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_name(f".{place.name}.part")
    part.write_bytes(data)
    part.replace(place)
    return checked
