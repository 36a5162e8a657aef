"""The sections of a manifest as JSON: which keys hold text, which hold values, and whose keys they are (S3, S4)."""

from __future__ import annotations

from typing import Any

from prowess.kernel.yaml_nodes import Mapping, Node, Scalar, Sequence, is_null, value_of

FOREIGN = {
    "tools": "[{name, description, parameters, returns, errors}]",
    "permissions": "{filesystem, network, shell, memory, env_vars}",
    "requirements": "[{code, risk, approval}]",
    "constraints": "{max_execution_time, max_memory_usage, rate_limit, retry_policy, schedule}",
    "dependencies": "{skills, packages, min_agent_version}",
    "triggers": "{patterns, keywords, min_keywords, exclude}",
}
"""What each section looks like where it is ours"""

_OWN_KEYS = {
    "permissions": {"filesystem", "shell", "memory", "env_vars"},
    "constraints": {"max_execution_time", "max_memory_usage", "rate_limit", "retry_policy", "schedule"},
    "dependencies": {"skills", "packages", "min_agent_version"},
    "triggers": {"patterns", "keywords", "min_keywords", "exclude"},
}
_VALUES = frozenset(
    {
        "required",
        "min",
        "max",
        "min_length",
        "max_length",
        "allowed",
        "max_execution_time",
        "max_memory_usage",
        "rate_limit",
        "max_retries",
        "initial_delay",
        "http_status",
        "min_keywords",
    }
)
"""Keys whose scalars are read by the core schema; the scalars of all others are text"""


def is_ours(name: str, node: Node) -> bool:
    """Whether a section found in a front matter is meant for us, by the keys it uses."""
    if name == "tools":
        return _tools_are_ours(node)
    if name == "requirements":
        return isinstance(node, Sequence) and any(isinstance(i, Mapping) and "code" in i.entries for i in node.items)
    if not isinstance(node, Mapping):
        return False
    if name == "permissions" and (network := node.entries.get("network")) is not None:
        inner = network.node
        if isinstance(inner, Mapping) and inner.entries.keys() & {"allowed", "domains"}:
            return True
    return bool(node.entries.keys() & _OWN_KEYS[name])


def _tools_are_ours(node: Node) -> bool:
    if not isinstance(node, Sequence):
        return False
    if not node.items:
        return True
    keys = [set(item.entries) for item in node.items if isinstance(item, Mapping)]
    marks = {"parameters", "returns", "errors"}
    return any(own & marks or ("name" in own and own <= {"name", "description"}) for own in keys)


def section_of(node: Node) -> Any:
    """The section as JSON: text verbatim, values by the core schema, keys with null left out."""
    if isinstance(node, Scalar):
        return None if is_null(node) else node.text
    if isinstance(node, Sequence):
        return [section_of(item) for item in node.items]
    is_text = _type_name(node) in ("string", "file")
    section = {}
    for key, entry in node.entries.items():
        value = _entry_value(key, entry.node, node, is_text)
        if value is not None:
            section[key] = value
    return section


def _entry_value(key: str, node: Node, spec: Mapping, is_text: bool) -> Any:
    if key == "default":
        return _typed(node, spec)
    if key == "enum":
        return section_of(node) if is_text else value_of(node)
    if key == "properties" and isinstance(node, Mapping):
        return {name: section_of(entry.node) for name, entry in node.entries.items()}
    if key in _VALUES and isinstance(node, Scalar):
        return value_of(node)
    return section_of(node)


def _typed(node: Node, spec: Node | None) -> Any:
    """A default value, read as its parameter's type asks: ``1.10`` stays text for a string."""
    if not isinstance(spec, Mapping):
        return value_of(node)
    kind = _type_name(spec)
    if isinstance(node, Scalar) and kind in ("string", "file"):
        return None if is_null(node) else node.text
    if isinstance(node, Sequence) and kind == "array":
        items = spec.entries.get("items")
        return [_typed(item, items.node if items else None) for item in node.items]
    if isinstance(node, Mapping) and kind == "object":
        inner = spec.entries.get("properties")
        specs = inner.node.entries if inner is not None and isinstance(inner.node, Mapping) else {}
        return {
            name: _typed(entry.node, specs[name].node if name in specs else None)
            for name, entry in node.entries.items()
        }
    return value_of(node)


def _type_name(spec: Mapping) -> str | None:
    kind = spec.entries.get("type")
    return kind.node.text if kind is not None and isinstance(kind.node, Scalar) else None
