"""Staged skill files never outlive the surface that allowed them (G12, G8; capabilities C7, C8)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.kit import AGENT, OpenApp, at_once, request, rows

from prowess import CapabilitySurface, ManualClock, NotFound, Prowess
from prowess.errors import Conflict, InvalidInput, ProwessError

NARROW = CapabilitySurface(skills=["open-notes"])


@pytest.fixture
def skills(tmp_path: Path) -> list[Path]:
    """Two skill folders with files."""
    made = []
    for name in ("open-notes", "hidden-notes"):
        folder = tmp_path / "source" / name
        (folder / "scripts").mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n---\n# {name}\n")
        (folder / "scripts" / "run.py").write_text(f"print('{name}')\n")
        (folder / "scripts" / "run.py").chmod(0o755)
        made.append(folder)
    return made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def opened(open_app: OpenApp, skills: list[Path]) -> Prowess:
    app = open_app()
    for folder in skills:
        app.add_skill(folder)
    return app


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_g8_g12_only_granted_skills_are_laid_out(open_app: OpenApp, skills: list[Path], workspace: Path) -> None:
    app = opened(open_app, skills)
    plan = app.begin(request("m1", "hello"), surface=NARROW)
    staged = app.stage(plan, workspace)
    assert files_in(staged.path) == ["open-notes/SKILL.md", "open-notes/scripts/run.py"]
    assert (staged.path / "open-notes" / "scripts" / "run.py").stat().st_mode & 0o777 == 0o500
    assert (staged.path / "open-notes" / "SKILL.md").read_text().startswith("---\nname: open-notes")
    for name in ("hidden-notes", "absent-notes"):
        with pytest.raises(NotFound) as caught:
            app.stage(plan, workspace, skills=[name])
        assert caught.value.code == "skill_not_found"


def test_g12_a_narrower_call_finds_nothing_of_a_wider_one(
    open_app: OpenApp, skills: list[Path], workspace: Path
) -> None:
    app = opened(open_app, skills)
    wide = app.stage(app.begin(request("m1", "hello")), workspace)
    assert "hidden-notes/SKILL.md" in files_in(wide.path)
    app.unstage(wide)
    narrow = app.stage(app.begin(request("m2", "hello"), surface=NARROW), workspace)
    assert not any("hidden-notes" in path for path in files_in(workspace))
    assert wide.path != narrow.path
    with pytest.raises(Conflict) as caught:
        app.renew_staged(wide)
    assert caught.value.code == "staged_over"


def test_g12_what_a_dead_process_left_is_taken_away_and_a_running_call_is_not_touched(
    open_app: OpenApp, skills: list[Path], workspace: Path, clock: ManualClock
) -> None:
    first, second = opened(open_app, skills), open_app()
    dead = first.stage(first.begin(request("m1", "hello")), workspace)
    clock.advance(timedelta(minutes=10))
    running = first.stage(first.begin(request("m2", "hello")), workspace)
    assert dead.path.exists()  # for all anybody knows it runs
    clock.advance(timedelta(minutes=6))
    assert second.clean_workspace(workspace) == 1
    assert (dead.path.exists(), running.path.exists()) == (False, True)
    first.renew_staged(running)
    clock.advance(timedelta(minutes=14))
    assert second.clean_workspace(workspace) == 0
    assert running.path.exists()


def test_g12_a_workspace_restored_from_an_old_copy_is_cleaned(
    open_app: OpenApp, skills: list[Path], workspace: Path
) -> None:
    app = opened(open_app, skills)
    old = workspace / ".prowess" / "call-of-long-ago" / "hidden-notes"
    old.mkdir(parents=True)
    (old / "SKILL.md").write_text("old")
    (workspace / ".prowess" / "stray.txt").write_text("x")
    (workspace / "own.txt").write_text("mine")
    app.stage(app.begin(request("m1", "hello"), surface=NARROW), workspace)
    assert not any("long-ago" in path or "stray" in path for path in files_in(workspace))
    assert (workspace / "own.txt").read_text() == "mine"


def test_g12_instances_on_one_workspace_exclude_each_other(
    open_app: OpenApp, skills: list[Path], workspace: Path, url: str
) -> None:
    apps = [opened(open_app, skills), open_app(), open_app()]
    plans = [
        apps[number % 3].begin(request(f"m{number}", "hello", conversation=f"c{number}"), surface=NARROW)
        for number in range(12)
    ]

    def work(number: int) -> bool:
        app = apps[number % 3]
        staged = app.stage(plans[number], workspace)
        whole = files_in(staged.path) == ["open-notes/SKILL.md", "open-notes/scripts/run.py"]
        if number % 2:
            app.unstage(staged)
        return whole

    results = at_once([lambda number=number: work(number) for number in range(12)])
    assert results == [True] * 12
    assert len(rows(url, "SELECT id FROM staged_calls WHERE released_at IS NULL")) == 6
    apps[0].clean_workspace(workspace)
    assert len(list((workspace / ".prowess").iterdir())) == 6


def test_g12_c8_no_link_leads_out(open_app: OpenApp, skills: list[Path], workspace: Path, tmp_path: Path) -> None:
    app = opened(open_app, skills)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep.txt").write_text("keep")
    plan = app.begin(request("m1", "hello"))
    (workspace / ".prowess").symlink_to(outside)
    with pytest.raises(Conflict) as caught:
        app.stage(plan, workspace)
    assert caught.value.code == "workspace_unsafe"
    (workspace / ".prowess").unlink()
    (workspace / ".prowess").mkdir()
    (workspace / ".prowess" / "link").symlink_to(outside)
    app.stage(plan, workspace)
    assert files_in(outside) == ["keep.txt"]
    assert not (workspace / ".prowess" / "link").exists()


def test_g12_equal_files_have_an_equal_digest(open_app: OpenApp, skills: list[Path], workspace: Path) -> None:
    app = opened(open_app, skills)
    plan = app.begin(request("m1", "hello"))
    one, other = app.stage(plan, workspace), app.stage(plan, workspace, skills=["hidden_notes", "open-notes"])
    assert one.digest == other.digest
    (skills[0] / "scripts" / "run.py").write_text("print('changed')\n")
    app.add_skill(skills[0])
    assert app.stage(app.begin(request("m2", "hello")), workspace).digest != one.digest


def test_g12_equal_files_make_equal_archives(open_app: OpenApp, skills: list[Path]) -> None:
    import io
    import tarfile

    from prowess.skills.staging.service import SkillFolder, archive
    from prowess.skills.store import StoredFile

    files = (StoredFile("SKILL.md", False, "", b"# a"), StoredFile("scripts/run.py", True, "", b"print()"))
    one = archive([SkillFolder("b", files), SkillFolder("a", files)])
    assert one == archive([SkillFolder("a", files[::-1]), SkillFolder("b", files)])
    with tarfile.open(fileobj=io.BytesIO(one)) as tar:
        assert tar.getnames() == ["a/SKILL.md", "a/scripts/run.py", "b/SKILL.md", "b/scripts/run.py"]
    changed = (StoredFile("SKILL.md", False, "", b"# b"), files[1])
    assert archive([SkillFolder("a", changed), SkillFolder("b", files)]) != one


@pytest.mark.parametrize("broken", ["missing", "file"])
def test_g12_a_workspace_that_is_none_is_refused(
    open_app: OpenApp, skills: list[Path], tmp_path: Path, broken: str
) -> None:
    app = opened(open_app, skills)
    target = tmp_path / "nowhere"
    if broken == "file":
        target.write_text("x")
    with pytest.raises(InvalidInput) as caught:
        app.stage(app.begin(request("m1", "hello")), target)
    assert caught.value.code == "workspace_missing"


def test_g12_a_skill_whose_paths_lead_out_is_not_laid_out(
    open_app: OpenApp, skills: list[Path], workspace: Path, url: str
) -> None:
    from tests.support.kit import execute

    app = opened(open_app, skills)
    execute(url, "UPDATE skill_files SET path = '../../evil.py' WHERE path = 'scripts/run.py'")
    with pytest.raises(ProwessError) as caught:
        app.stage(app.begin(request("m1", "hello", agent=AGENT)), workspace)
    assert caught.value.code == "workspace_unwritable"
    assert files_in(workspace) == []
