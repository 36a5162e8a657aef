"""Versions that serve some users, drafts, and versions that cannot be read (conformance B and C3)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.kit import AGENT, OpenApp, execute, turn

from prowess import InvalidInput, NotFound, Prowess

USERS = [f"user-{number}" for number in range(1_000)]


def add(app: Prowess, tmp_path: Path, version: str, name: str = "deploy") -> None:
    folder = tmp_path / version / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: Deploys.\nmetadata:\n  version: {version}\n---\n# {name} {version}\n"
    )
    app.add_skill(folder)


def served(app: Prowess, user: str) -> str | None:
    found = app.candidates(user=user, agent=AGENT)
    return next((entry.manifest.version for entry in found if entry.manifest.id == "deploy"), None)


@pytest.fixture
def app(open_app: OpenApp, tmp_path: Path) -> Prowess:
    app = open_app()
    for version in ("1.0.0", "2.0.0"):
        add(app, tmp_path, version)
    return app


def test_q3_a_draft_serves_nobody_and_a_full_rollout_everybody(app: Prowess, open_app: OpenApp) -> None:
    app.roll_out_skill("deploy", "2.0.0", 0)
    assert {served(app, user) for user in USERS[:50]} == {"1.0.0"}
    assert served(open_app(drafts=True), USERS[0]) == "2.0.0"
    app.roll_out_skill("deploy", "2.0.0", 100)
    assert {served(app, user) for user in USERS[:50]} == {"2.0.0"}


def test_q3_ten_percent_is_about_a_tenth_and_stays_the_same_users(app: Prowess, open_app: OpenApp) -> None:
    app.roll_out_skill("deploy", "2.0.0", 10)
    first = {user for user in USERS if served(app, user) == "2.0.0"}
    assert 60 <= len(first) <= 140
    assert {served(app, user) for user in USERS if user not in first} == {"1.0.0"}
    other = open_app()
    assert {user for user in USERS if served(other, user) == "2.0.0"} == first
    app.roll_out_skill("deploy", "2.0.0", 30)
    assert first < {user for user in USERS if served(app, user) == "2.0.0"}


def test_q3_a_skill_that_is_a_draft_only_is_not_there(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app()
    add(app, tmp_path, "1.0.0")
    app.roll_out_skill("deploy", "1.0.0", 0)
    assert turn(app, "m1", "/deploy").selection is None
    app.bind_skill("deploy", agent=AGENT, pin="1.0.0")
    assert turn(app, "m2", "/deploy").selection is None  # a pin does not bring it to life
    assert turn(open_app(drafts=True), "m3", "/deploy").selection is not None


@pytest.mark.parametrize("percent", [-1, 101, 1.5, True, "10"])
def test_q3_a_rollout_is_a_whole_percentage(app: Prowess, percent: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        app.roll_out_skill("deploy", "2.0.0", percent)
    assert caught.value.code == "bad_percent"


def test_q3_what_cannot_be_rolled_out(app: Prowess) -> None:
    with pytest.raises(NotFound):
        app.roll_out_skill("deploy", "9.0.0", 10)
    with pytest.raises(InvalidInput) as caught:
        app.roll_out_skill("daily-planning", "1.0.0", 10)
    assert caught.value.code == "skill_built_in"
    app.roll_out_skill("deploy", "2.0.0", 10)
    latest = app.audit(skill="deploy", limit=1)
    assert [(event.type, event.data) for event in latest] == [("skill.rolled_out", {"percent": 10})]


def test_s7_no_older_version_takes_the_place_of_one_that_cannot_be_read(
    app: Prowess, open_app: OpenApp, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    execute(url, "UPDATE skill_versions SET manifest = '{broken' WHERE version = '2.0.0'")
    broken = open_app()
    assert served(broken, "u1") is None
    assert turn(broken, "m1", "/deploy").selection is None
    assert "skill deploy@2.0.0 cannot be read" in caplog.text
    execute(url, "UPDATE skill_versions SET manifest = '{broken' WHERE version = '1.0.0'")
    execute(url, "UPDATE skill_versions SET removed_at = 1 WHERE version = '2.0.0'")
    assert served(open_app(), "u1") is None


def test_s7_an_older_version_that_cannot_be_read_is_no_matter(app: Prowess, open_app: OpenApp, url: str) -> None:
    execute(url, "UPDATE skill_versions SET manifest = '{broken' WHERE version = '1.0.0'")
    assert served(open_app(), "u1") == "2.0.0"


def test_g8_a_draft_is_not_there_to_be_seen_or_chosen(app: Prowess) -> None:
    for version in ("1.0.0", "2.0.0"):
        app.roll_out_skill("deploy", version, 0)
    for road in (
        lambda: app.skill_for("deploy", user="u1"),
        lambda: app.bind_skill("deploy", user="u1", enabled=True),
        lambda: app.grant(user="u1", skill="deploy", code="notes:read"),
    ):
        with pytest.raises(NotFound) as caught:
            road()
        assert caught.value.code == "skill_not_found"


def test_t6_the_version_that_serves_a_user_is_the_one_that_they_see(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app(resolver="roles")
    for version in ("1.0.0", "2.0.0"):
        add(app, tmp_path, version)
    app.define_role("old", skills=["deploy@1.0.0"])
    app.assign_role("old", user="ann")
    app.bind_skill("deploy", user="ann", pin="1.0.0")
    assert app.skill_for("deploy", user="ann").manifest.version == "1.0.0"
    assert served(app, "ann") == "1.0.0"
    app.bind_skill("deploy", user="ann", enabled=False)
    assert app.skill_for("deploy", user="ann").manifest.version == "1.0.0"
