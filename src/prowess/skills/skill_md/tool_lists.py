"""Lists of tools as people write them: ``Bash(git add *) Read``, with commas, or as a YAML list (S2, C11)."""

from __future__ import annotations

from prowess.kernel.yaml_nodes import Mapping, Node, Scalar, Sequence, is_null

_CLOSERS = {"(": ")", "[": "]", "{": "}"}


def split_tools(text: str) -> tuple[str, ...]:
    """The entries of a list of tools; blanks and commas separate, except inside brackets.

    ``Bash (git *)`` is one entry, ``Bash(git *)``: read as two, it would allow all of ``Bash``. Raises ``ValueError``
    with the place in question where brackets do not match.
    """
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    entries: list[str] = []
    current: list[str] = []
    open_brackets: list[str] = []
    after_comma = True
    for character in text:
        if open_brackets:
            current.append(character)
            if character == open_brackets[-1]:
                open_brackets.pop()
            elif character in _CLOSERS:
                open_brackets.append(_CLOSERS[character])
        elif character in _CLOSERS:
            if not current and entries and not after_comma:
                current = list(entries.pop())
            if not current:
                raise ValueError(character)
            current.append(character)
            open_brackets.append(_CLOSERS[character])
        elif character in ")]}":
            raise ValueError(character)
        elif character.isspace() or character == ",":
            if current:
                entries.append("".join(current))
                current = []
                after_comma = False
            after_comma = after_comma or character == ","
        else:
            current.append(character)
    if open_brackets:
        raise ValueError(f"… {open_brackets[-1]}")
    if current:
        entries.append("".join(current))
    bare = tuple(entry for entry in (entry.strip("\"'") for entry in entries) if entry)
    if any(entry[0] in _CLOSERS for entry in bare):
        raise ValueError(next(entry[0] for entry in bare if entry[0] in _CLOSERS))
    return bare


def tools_of(node: Node) -> tuple[tuple[str, ...], bool]:
    """The entries that a value lists, and whether it is written otherwise than with blanks alone.

    Raises ``ValueError`` where an entry cannot be read: a restriction is never guessed.
    """
    if isinstance(node, Scalar):
        text = "" if is_null(node) else node.text
        tools = split_tools(text)
        return tools, tuple(text.split()) != tools and " ".join(text.split()) != " ".join(tools)
    if isinstance(node, Mapping):
        raise ValueError("{…}")
    tools = ()
    for item in node.items:
        tools += split_tools(_entry_text(item))
    return tools, True


def _entry_text(item: Node) -> str:
    """One entry of a list; ``- Bash(npm: x)``, which YAML reads as a pair, is put together again."""
    if isinstance(item, Scalar) and not is_null(item):
        return item.text
    if isinstance(item, Mapping) and len(item.entries) == 1:
        ((key, entry),) = item.entries.items()
        if isinstance(entry.node, Scalar):
            return f"{key}: {entry.node.text}" if entry.node.text else f"{key}:"
    raise ValueError("- …")


def is_tool_name_list(node: Node) -> bool:
    """Whether the value is a list of plain names rather than of tool definitions."""
    return isinstance(node, Sequence) and bool(node.items) and all(isinstance(item, Scalar) for item in node.items)
