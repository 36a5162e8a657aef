"""What a version asks for, as comparable items, and how it differs from another (U11).

Whatever widens what a skill may do, or lets it happen with less asking, is an item of its own: an approval names the
items that are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from prowess.packages.model import Changes
from prowess.validation.levels import permission_level

if TYPE_CHECKING:
    from prowess.skills.manifest import SkillManifest

Item = tuple[str, str]
Files = Mapping[str, str]
"""path → SHA-256"""

SCRIPTS = "scripts/"


def asked_by(manifest: SkillManifest, files: Iterable[str] = ()) -> frozenset[Item]:
    """Everything that a version asks for, and whether it brings scripts."""
    asked = manifest.permissions
    items: set[Item] = set()
    for verb in ("read", "write", "delete"):
        items |= {(f"fs:{verb}", path) for path in getattr(asked.filesystem, verb)}
    items |= {("network", host.lower()) for host in asked.network.domains}
    items |= {("shell", command) for command in asked.shell.commands}
    if asked.network.allowed and not asked.network.domains:
        items.add(("network", "any host"))
    if asked.shell.allowed and not asked.shell.commands:
        items.add(("shell", "any command"))
    for verb, layers in (("read", asked.memory.read_layers), ("write", asked.memory.write_layers)):
        items |= {(f"memory:{verb}", layer) for layer in layers}
    for verb, names in (("read", asked.env_vars.read), ("write", asked.env_vars.write)):
        items |= {(f"env:{verb}", name) for name in names}
    items |= {("requirement", f"{one.code} {one.risk} {one.approval}") for one in manifest.requirements}
    items |= {("allowed-tool", tool) for tool in manifest.allowed_tools or ()}
    items |= {("package", f"{kind}:{name}") for pair in manifest.dependencies.packages for kind, name in pair.items()}
    items |= {("skill", name) for name in manifest.dependencies.skills}
    schedule = manifest.constraints.schedule
    if schedule is not None:
        items.add(("schedule", f"{schedule.type} {schedule.expression} {schedule.timezone or ''}".strip()))
    if any(path.startswith(SCRIPTS) for path in files):
        items.add(("scripts", "brings scripts"))
    return frozenset(items)


def changes_between(
    before: tuple[SkillManifest, Files] | None,
    after: tuple[SkillManifest, Files],
    signer: tuple[str | None, str | None] = (None, None),
) -> Changes:
    """How a version differs from the one that serves; ``before`` null: nothing does.

    A skill that stops naming its tools (``allowed-tools`` left out, where it was given) is wider: it restricts no more.
    """
    manifest, files = after
    new, old = asked_by(manifest, files), frozenset[Item]()
    old_files: Files = {}
    level = 0
    if before is not None:
        old_manifest, old_files = before
        old, level = asked_by(old_manifest, old_files), permission_level(old_manifest)[0]
        if old_manifest.allowed_tools is not None and manifest.allowed_tools is None:
            new |= {("allowed-tool", "any tool")}
    return Changes(
        against=None if before is None else before[0].version,
        wider=tuple(sorted(new - old)),
        narrower=tuple(sorted(old - new)),
        scripts=tuple(file_changes(old_files, files, SCRIPTS)),
        level=(level, permission_level(manifest)[0]),
        signer=signer,
    )


def file_changes(before: Files, after: Files, below: str = "") -> list[Item]:
    """``("added" | "changed" | "removed", path)`` for the files below a folder, by path."""
    found: list[Item] = []
    for path in sorted({*before, *after}):
        if not path.startswith(below) or before.get(path) == after.get(path):
            continue
        found.append(("added" if path not in before else "removed" if path not in after else "changed", path))
    return found
