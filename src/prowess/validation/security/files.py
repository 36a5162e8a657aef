"""What a file is, whatever its name says (V3): by its first bytes, its name and its first line."""

from __future__ import annotations

import re
from typing import NamedTuple

from prowess.validation.security.rules import Finding

MAX_DOCUMENT_CHARACTERS = 2 * 1024 * 1024
MAX_FILE_READ = 5 * 1024 * 1024
MAX_SKILL_READ = 50 * 1024 * 1024

_LANGUAGES = {
    "py": "python", "pyw": "python", "sh": "shell", "bash": "shell", "zsh": "shell", "ksh": "shell", "command": "shell",
    "js": "script", "mjs": "script", "cjs": "script", "ts": "script", "tsx": "script", "jsx": "script", "mts": "script",
    "md": "markdown", "markdown": "markdown", "mdx": "markdown", "mdc": "markdown", "prompt": "markdown",
    "json": "data", "jsonc": "data", "jsonl": "data", "yaml": "data", "yml": "data", "toml": "data", "csv": "data", "tsv": "data", "xml": "data",
    "html": "data", "htm": "data", "svg": "data", "txt": "data", "rst": "data", "cfg": "data", "ini": "data", "conf": "data", "env": "data", "template": "data", "j2": "data",
    "ps1": "text", "bat": "text", "cmd": "text", "vbs": "text", "rb": "text", "pl": "text", "php": "text", "lua": "text", "go": "text", "rs": "text", "java": "text", "swift": "text",
    "applescript": "text", "sql": "text", "css": "skip", "xsd": "skip",
}  # fmt: skip
_PROGRAMS = (
    (b"\x7fELF", "ELF"), (b"MZ", "Windows"), (b"\xcf\xfa\xed\xfe", "Mach-O"), (b"\xca\xfe\xba\xbe", "Mach-O/Java"), (b"\xfe\xed\xfa\xcf", "Mach-O"),
    (b"\x00asm", "WebAssembly"), (b"dex\n", "Android"),
)  # fmt: skip
_ARCHIVES = (
    (b"PK\x03\x04", "ZIP"),
    (b"\x1f\x8b", "gzip"),
    (b"7z\xbc\xaf", "7z"),
    (b"Rar!", "RAR"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
)
_ARCHIVE_NAMES = re.compile(
    r"\.(?:zip|gz|tgz|tar|7z|rar|bz2|xz|jar|whl|egg|docx|xlsx|pptx|dotx|potx|xltx|odt|ods|odp|epub|apk|vsix|nupkg|skill|svgz|sketch|key|numbers|pages|mcpb|dxt|usdz|3mf|npz|pt|pth)$"
)
_MEDIA_NAMES = re.compile(
    r"\.(?:png|jpe?g|gif|webp|avif|heic|bmp|ico|icns|tiff?|psd|ai|eps|pdf|ttf|otf|ttc|woff2?|eot|mp[34]|m4[av]|ogg|oga|opus|wav|flac|webm|mov|avi|mkv|aac|mid|glb|gltf|stl|obj|fbx"
    r"|docx?|xlsx?|pptx?|sqlite3?|db|parquet|npy|onnx|safetensors|h5|nc|dat|shp|dbf|shx|las|tif|fits|excalidraw|fig|riv|lottie|mo|pyc|pyo|ds_store|ppm|pgm)$|^\.ds_store$"
)
_PROGRAM_NAMES = re.compile(r"\.(?:exe|dll|so|dylib|bin|o|a|node|wasm|class|com|scr|pyd|elf|out|dex)$|^[^.]+$")
_PICKLE = re.compile(rb"^\x80[\x02-\x05]")
_VIRUS = b"EICAR-STANDARD-ANTIVIRUS-" + b"TEST-FILE"


class Content(NamedTuple):
    """A file read as text: ``language`` is ``python``, ``shell``, ``script``, ``markdown``, ``data``, ``text`` or ``skip``."""

    path: str
    text: str
    language: str


def language_of(path: str, start: str) -> str:
    """The language of a text by its first line, then its name."""
    first = start.partition("\n")[0] if start.startswith("#!") else ""
    if first:
        if re.search(r"python|\buv\b", first):
            return "python"
        if re.search(r"\b(?:sh|bash|zsh|dash|ksh)\b", first):
            return "shell"
        if re.search(r"node|deno|bun|tsx", first):
            return "script"
    name = path.rpartition("/")[2]
    ending = name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""
    if name.lower() in ("makefile", "dockerfile", "justfile"):
        return "text"
    return _LANGUAGES.get(ending, "data" if not ending else "text")


def read_bytes(path: str, data: bytes, file: str) -> tuple[Content | None, list[Finding]]:
    """The text of a file, or ``None`` where it is none, and what its bytes and name give away."""
    findings = list(_named(path, file))
    if len(data) < 4096 and _VIRUS in data:
        findings.append(Finding("sec_test_virus", file, 1, "EICAR"))
    kind = next((name for magic, name in _PROGRAMS if data.startswith(magic)), None)
    if kind == "Windows" and not (len(data) > 64 and b"PE\0\0" in data[:1024]):
        kind = None
    name = path.rpartition("/")[2].lower()
    if kind is not None:
        code = "sec_program" if _PROGRAM_NAMES.search(name) or kind in ("WebAssembly",) else "sec_disguised_program"
        return None, [*findings, Finding(code, file, 1, kind)]
    archive = next((title for magic, title in _ARCHIVES if data.startswith(magic)), None)
    if archive is not None:
        plain = _LANGUAGES.get(name.rpartition(".")[2]) is not None
        return None, [*findings, Finding("sec_disguised_archive" if plain else "sec_archive", file, 1, archive)]
    if _PICKLE.match(data) and data.rstrip().endswith(b"."):
        return None, [*findings, Finding("sec_pickle_file", file, 1, "pickle")]
    if name.endswith((".pyc", ".pyo")):
        return None, [*findings, Finding("sec_compiled", file, 1, name)]
    text = _decode(data)
    if text is None:
        if _LANGUAGES.get(name.rpartition(".")[2]) in ("python", "shell", "script", "markdown"):
            findings.append(Finding("sec_not_text", file, 1, name))
        elif not _MEDIA_NAMES.search(name):
            findings.append(Finding("sec_opaque", file, 1, name))
        return None, findings
    return Content(path, text, language_of(path, text[:200])), findings


def _decode(data: bytes) -> str | None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:8192]:
        return None
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        sample = data[:65536]
        high = sum(byte > 0x7F for byte in sample)
        return data.decode("latin-1") if high * 3 < len(sample) else None


def _named(path: str, file: str) -> list[Finding]:
    name = path.rpartition("/")[2].lower()
    found = []
    if name in ("sitecustomize.py", "usercustomize.py") or (name.endswith(".pth") and not name.endswith("model.pth")):
        found.append(Finding("sec_import_hook", file, 1, name))
    if re.search(
        r"\.(?:pdf|docx?|xlsx?|png|jpe?g|gif|txt|md|csv)\.(?:exe|scr|sh|bat|cmd|js|vbs|py|command|app)$", name
    ):
        found.append(Finding("sec_disguised_program", file, 1, name))
    return found
