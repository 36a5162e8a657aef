"""Files of versions are kept by digest, so many bytes and no more (X6)."""

from __future__ import annotations

from pathlib import Path

from tests.support.scripts import enter_unproven, write_skill

import prowess
from prowess.turns.scripts.files import ScriptFiles


def test_x6_files_are_read_once_and_the_oldest_make_room(tmp_path: Path) -> None:
    app = prowess.open("sqlite://", sandbox="refuse")
    for name in ("one", "two"):
        files_of_it = {"assets/a.txt": "x" * 600}
        enter_unproven(app, write_skill(tmp_path, "def run():\n    return 1", name=name, files=files_of_it))
    files = ScriptFiles(app._parts.database, limit=1_300)
    digests = {name: app.skill(name).digest for name in ("one", "two")}
    first = files.of("default", "one", "1.0.0", digests["one"])
    assert [file.path for file in first] == ["SKILL.md", "assets/a.txt", "prowess.yaml", "scripts/one.py"]
    assert files.of("default", "one", "1.0.0", digests["one"]) is first
    files.of("default", "two", "1.0.0", digests["two"])
    assert files.of("default", "one", "1.0.0", digests["one"]) is not first
    assert files.of("other", "absent", "1.0.0", "no digest") == ()
    app.close()
