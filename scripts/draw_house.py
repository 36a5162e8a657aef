"""Draw docs/house.svg, and the floor plan in docs/architecture.md, from the import contract in pyproject.toml.

Rooms and their order come from the ``layers`` contract, what a room is for from the first line of its docstring.
``--check`` writes nothing and fails where either file is stale.
"""

from __future__ import annotations

import ast
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "prowess"
PICTURE = ROOT / "docs" / "house.svg"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- house: written by scripts/draw_house.py -->", "<!-- end of house -->"

# Which floor a room belongs to; the contract knows their order but not the names of the floors.
FLOORS = {
    "faces": {"server", "cli", "mcp", "acp"},
    "root": {"runtime", "builtin", "adapters"},
    "growth": {"learning", "lifecycle", "packages", "validation"},
    "work": {"mounts", "automation"},
    "turn": {"turns"},
    "things": {"sandbox", "skills", "memory", "chat", "secrets"},
    "law": {"access"},
    "ground": {"events", "db", "kernel", "errors", "messages"},
}


@dataclass(frozen=True)
class Room:
    """A package or module that the contract names."""

    name: str
    label: str
    about: str


@dataclass(frozen=True)
class Floor:
    """Neighbouring layers under one name; each layer may import those right of it and below."""

    name: str
    layers: tuple[tuple[Room, ...], ...]


def read_room(name: str) -> Room:
    """Look a room up in the source tree."""
    folder = PACKAGE / name
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return Room(name, name + ("/" if folder.is_dir() else ".py"), about.partition("\n")[0].replace("``", ""))


def read_floors() -> list[Floor]:
    """The house from roof to ground."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    floors: list[Floor] = []
    for layer in contract["layers"]:
        names = [name.strip() for name in layer.replace(":", "|").split("|")]
        rooms = tuple(read_room(name) for name in names if not name.startswith("("))
        if not rooms:
            continue
        floor = next((floor for floor, known in FLOORS.items() if rooms[0].name in known), None)
        if floor is None:
            sys.exit(f"draw_house: say in FLOORS on which floor the room {rooms[0].name!r} lies")
        if floors and floors[-1].name == floor:
            floors[-1] = Floor(floor, (*floors[-1].layers, rooms))
        else:
            floors.append(Floor(floor, (rooms,)))
    return floors


def plan(floors: list[Floor]) -> str:
    """The house as lines of text."""
    lines = []
    for floor in floors:
        label = floor.name
        for depth, layer in enumerate(floor.layers):
            for place, room in enumerate(layer):
                mark = "|" if place else ">" if depth else " "
                lines.append(f"{label:<8}{mark} {room.label:<13} {room.about}".rstrip())
                label = ""
    return "\n".join(lines)


STYLE = """
.paper{fill:#fbfaf7}.ink{fill:#22303c}.soft{fill:#5b6b78}.line{stroke:#8a97a3;fill:none}.roof{fill:#b5533c}
.room{fill:#ffffff;stroke:#c4ccd3}.earth{fill:#b9c7a5}
.b0{fill:#f6dfd6}.b1{fill:#f8ead0}.b2{fill:#e6f0d8}.b3{fill:#d9eee9}.b4{fill:#dae8f6}.b5{fill:#e4e1f5}.b6{fill:#e9e6e0}
@media(prefers-color-scheme:dark){
.paper{fill:#14191e}.ink{fill:#e8edf1}.soft{fill:#a3b1bd}.line{stroke:#71808d}.roof{fill:#b5533c}
.room{fill:#1d252c;stroke:#465460}.earth{fill:#3c4a33}
.b0{fill:#43302a}.b1{fill:#40382a}.b2{fill:#313b2a}.b3{fill:#27393a}.b4{fill:#273645}.b5{fill:#322f46}.b6{fill:#33322f}}
text{font-family:system-ui,-apple-system,'Segoe UI',sans-serif}
.mono{font-family:ui-monospace,'SF Mono',Menlo,Consolas,monospace}
""".strip()

WIDTH, LEFT, RIGHT, MARGIN = 1000, 150, 960, 40
ROOF, GAP, ARROW, PAD, LINE = 108, 6, 30, 14, 15


def text(x: float, y: float, size: int, words: str, look: str = "ink", extra: str = "") -> str:
    """One line of text."""
    return f'<text class="{look}" x="{x:g}" y="{y:g}" font-size="{size}"{extra}>{escape(words)}</text>'


def draw_floor(floor: Floor, top: float, band: int) -> tuple[list[str], float]:
    """A band with its rooms; returns it and the height it took."""
    count = sum(len(layer) for layer in floor.layers)
    gaps = (len(floor.layers) - 1) * ARROW + (count - len(floor.layers)) * 12
    width = (RIGHT - LEFT - PAD - gaps) / count
    # A character of the 11.5 px text is about 6.2 px wide in the wider of the usual fonts.
    wrapped = {
        room.name: textwrap.wrap(room.about, max(14, int((width - 20) / 6.2)))
        for layer in floor.layers
        for room in layer
    }
    room_height = 40 + LINE * max(1, *(len(lines) for lines in wrapped.values()))
    height = room_height + 2 * PAD
    parts = [
        f'<rect class="b{band % 7}" x="{MARGIN}" y="{top:g}" width="{RIGHT - MARGIN}" height="{height:g}" rx="5"/>',
        text(MARGIN + 18, top + height / 2 + 5, 16, floor.name, extra=' font-weight="600"'),
    ]
    x = float(LEFT)
    for depth, layer in enumerate(floor.layers):
        if depth:
            middle = top + height / 2
            parts.append(f'<path class="line" d="M{x - ARROW + 5:g} {middle:g}h{ARROW - 12}m-5 -4l5 4l-5 4"/>')
        for place, room in enumerate(layer):
            x += 12 if place else 0
            y = top + PAD
            parts.append(f'<rect class="room" x="{x:g}" y="{y:g}" width="{width:g}" height="{room_height:g}" rx="4"/>')
            parts.append(text(x + 11, y + 23, 14, room.label, "ink mono", ' font-weight="600"'))
            parts += [
                f'<text class="soft" x="{x + 11:g}" y="{y + 42 + i * LINE:g}" font-size="11.5">{escape(line)}</text>'
                for i, line in enumerate(wrapped[room.name])
            ]
            x += width
        x += ARROW
    return parts, height


def draw(floors: list[Floor]) -> str:
    """The picture."""
    parts: list[str] = []
    y = float(ROOF)
    for band, floor in enumerate(floors):
        drawn, height = draw_floor(floor, y, band)
        parts += drawn
        y += height + GAP
    height = y + 58
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="t d">',
        '<title id="t">The house: imports go down only</title>',
        f'<desc id="d">\n{escape(plan(floors))}\n</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height:g}" rx="10"/>',
        '<rect class="roof" x="770" y="26" width="34" height="60"/>',
        f'<path class="roof" d="M{MARGIN - 18} {ROOF - 8}L380 26H620L{RIGHT + 18} {ROOF - 8}Z"/>',
        '<text x="500" y="62" font-size="24" font-weight="700" text-anchor="middle" fill="#fff">prowess</text>',
        '<text x="500" y="84" font-size="12.5" text-anchor="middle" fill="#fff">'
        "people and programs come in at the top</text>",
    ]
    foot = [
        f'<rect class="earth" x="{MARGIN - 18}" y="{y:g}" width="{RIGHT - MARGIN + 36}" height="8" rx="4"/>',
        text(
            MARGIN, y + 32, 12, "Imports go down and along arrows; rooms side by side do not know each other.", "soft"
        ),
        "</svg>",
    ]
    return "\n".join([*head, *parts, *foot]) + "\n"


def page_with(block: str) -> str:
    """The page with its floor plan replaced."""
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"draw_house: {PAGE.name} has lost the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n```text\n{block}\n```\n\n{END}{after}"


def main() -> int:
    """Write both files, or with ``--check`` say which is stale."""
    floors = read_floors()
    wanted = {PICTURE: draw(floors), PAGE: page_with(plan(floors))}
    stale = [path for path, content in wanted.items() if not path.exists() or path.read_text("utf-8") != content]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run python scripts/draw_house.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
