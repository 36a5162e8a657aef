"""What may change between two versions of a skill, and which Prowess a skill needs (ruling 12.8; SemVer 2.0.0).

- A patch keeps what the skill asks for and what its tools look like.
- A minor version may ask for more and may add optional parameters and tools.
- Only a major version may take parameters or tools away, change their types, demand new parameters, or change the kind.

Below 1.0.0 the middle number stands for the first (section 4 of SemVer lets everything change; a patch still may not).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from prowess.packages.changes import asked_by
from prowess.skills.names import Version

if TYPE_CHECKING:
    from prowess.skills.manifest import ParameterSpec, ReturnSpec, SkillManifest, ToolSpec

Step = Literal["patch", "minor", "major"]
_STEPS: tuple[Step, ...] = ("patch", "minor", "major")


class Break(NamedTuple):
    """One change that needs more than a patch: the step, what it is, and the path of the field in the new manifest."""

    step: Step
    what: str
    path: tuple[str | int, ...]


def breaks(old: SkillManifest, new: SkillManifest) -> list[Break]:
    """Every change that needs a minor or a major version, the gravest first."""
    found: list[Break] = []
    if old.kind is not new.kind:
        found.append(Break("major", f"kind {old.kind} → {new.kind}", ("kind",)))
    for area, value in sorted(asked_by(new) - asked_by(old)):
        section = _SECTIONS.get(area.partition(":")[0], "permissions")
        found.append(Break("minor", f"{area} {value}", (section,)))
    found.extend(_tool_breaks(old, new))
    return sorted(found, key=lambda item: -_STEPS.index(item.step))


_SECTIONS = {
    "requirement": "requirements",
    "allowed-tool": "allowed_tools",
    "package": "dependencies",
    "skill": "dependencies",
    "schedule": "constraints",
}


def _tool_breaks(old: SkillManifest, new: SkillManifest) -> list[Break]:
    before = {tool.name: tool for tool in old.tools}
    after = {tool.name: (index, tool) for index, tool in enumerate(new.tools)}
    found = [Break("major", f"tool {name} is gone", ("tools",)) for name in before if name not in after]
    for name, (index, tool) in after.items():
        here: tuple[str | int, ...] = ("tools", index)
        if name not in before:
            found.append(Break("minor", f"tool {name} is new", here))
            continue
        found.extend(_parameter_breaks(before[name], tool, (*here, "parameters")))
        if _shape(before[name].returns) != _shape(tool.returns):
            found.append(Break("major", f"{name} returns another type", (*here, "returns")))
    return found


def _parameter_breaks(old: ToolSpec, new: ToolSpec, here: tuple[str | int, ...]) -> list[Break]:
    before = {spec.name: spec for spec in old.parameters}
    after = {spec.name: (index, spec) for index, spec in enumerate(new.parameters)}
    found = [Break("major", f"{new.name}.{name} is gone", here) for name in before if name not in after]
    for name, (index, spec) in after.items():
        place, label = (*here, index), f"{new.name}.{name}"
        known = before.get(name)
        if known is None:
            step: Step = "major" if spec.required else "minor"
            found.append(Break(step, f"{label} is new", place))
        elif _shape(known) != _shape(spec):
            found.append(Break("major", f"{label} has another type", place))
        elif spec.required and not known.required:
            found.append(Break("major", f"{label} is required now", place))
    return found


def _shape(spec: ParameterSpec | ReturnSpec | None) -> Any:
    """The types of a value, without the limits on it; those may be loosened or tightened as bugs are mended."""
    if spec is None:
        return None
    properties = {name: _shape(inner) for name, inner in (spec.properties or {}).items()}
    values = getattr(spec, "enum", None) if spec.type == "enum" else None
    return spec.type, _shape(spec.items), properties, None if values is None else sorted(map(repr, values))


def needed_version(old: Version, step: Step) -> Version:
    """The lowest stable version after ``old`` that may bring a change of this step."""
    major, minor, patch = old.numbers
    if step == "patch":
        return Version(f"{major}.{minor}.{patch + 1}")
    if step == "minor" or major == 0:
        return Version(f"{major}.{minor + 1}.0")
    return Version(f"{major + 1}.0.0")


def too_small(old: SkillManifest, new: SkillManifest) -> tuple[Break, Version] | None:
    """The gravest change that the step from ``old`` to the later ``new`` does not allow, and the version it needs."""
    before, after = Version(old.version), Version(new.version)
    step = _step(before, after)
    for change in breaks(old, new):
        if _STEPS.index(change.step) > _STEPS.index(step):
            return change, needed_version(before, change.step)
    return None


def next_version(old: SkillManifest, new: SkillManifest) -> Version:
    """The version for files that name none and come after ``old``."""
    changed = breaks(old, new)
    return needed_version(Version(old.version), changed[0].step if changed else "patch")


def _step(before: Version, after: Version) -> Step:
    (major, minor, _), (new_major, new_minor, _) = before.numbers, after.numbers
    if new_major != major:
        return "major"
    if new_minor != minor:
        return "major" if major == 0 else "minor"
    return "patch"


def agent_too_old(manifest: SkillManifest, running: str) -> str | None:
    """The version of Prowess that the skill needs, where the running one is older; what is no version is never met."""
    wanted = manifest.dependencies.min_agent_version
    if wanted is None:
        return None
    text = wanted.strip().removeprefix(">=").strip().removeprefix("v")
    missing = 2 - text.count(".")
    try:
        needed = Version(text + ".0" * max(missing, 0))
    except ValueError:
        return wanted[:60]
    return None if Version(running) >= needed else needed.text
