"""The catalog in use: added, changed, removed, exported, chosen; in force at once everywhere (S6, S7, T6, C08, C10)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from tests.support.kit import OpenApp, at_once, everything, execute, manual, recaller, request, rows, tool, turn

from prowess import Prowess
from prowess.errors import Conflict, InvalidInput, NotFound, ProwessError
from prowess.skills.service import Added
from prowess.skills.skill_md import read_skill_folder

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a skill folder ``<root>/<name>``."""

    def write_one(name: str = "deploy", body: str = "Deploy with care.", *, root: str = "skills", **front: Any) -> Path:
        folder = tmp_path / root / name
        folder.mkdir(parents=True, exist_ok=True)
        fields = {"name": name, "description": f"How to {name}.", **front}
        lines = "\n".join(f"{key}: {value}" for key, value in fields.items())
        (folder / "SKILL.md").write_text(f"---\n{lines}\n---\n\n{body}\n", encoding="utf-8")
        return folder

    return write_one


def versions(app: Prowess, skill: str = "deploy") -> list[str]:
    return [entry.manifest.version for entry in app.skill_versions(skill)]


def served(app: Prowess, message_id: str, **changed: Any) -> str:
    """The version and first instruction line that ``/deploy`` is served with, or what it says instead."""
    result = turn(app, message_id, "/deploy now", **changed)
    if result.selection is None:
        return "unknown"
    assert result.instruction is not None
    return f"{result.selection.version} {result.instruction.splitlines()[-1]}"


# --- adding (S7) -----------------------------------------------------------------------------------------------------


def test_s6_s7_a_folder_enters_the_catalog_whole(app: Prowess, write: Write) -> None:
    folder = write(version="1.2.0")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "go.sh").write_bytes(b"#!/bin/sh\necho go\n")
    (folder / "scripts" / "go.sh").chmod(0o755)
    (folder / "assets").mkdir()
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    (folder / "assets" / "raw.png").write_bytes(picture)
    added = app.add_skill(folder)
    assert added.ref == ("deploy", "1.2.0")
    assert (added.state, added.notes) == ("added", ("scripts_not_run",))
    assert added.digest == read_skill_folder(folder).digest
    files = {file.path: file for file in app._parts.skills.files("default", "deploy")}
    assert set(files) == {"SKILL.md", "assets/raw.png", "scripts/go.sh"}
    assert files["assets/raw.png"].content == picture
    assert files["scripts/go.sh"].executable
    assert not files["SKILL.md"].executable
    assert app.skill("deploy").notes == ("scripts_not_run",)


def test_s1_built_in_and_installed_stand_in_one_catalog(open_app: OpenApp, write: Write) -> None:
    app = open_app(manual("notes"))
    app.add_skill(write())
    sources = {entry.manifest.id: entry.source for entry in app.skills()}
    assert sources["notes"] == "built-in"
    assert sources["deploy"] != "built-in"
    assert [entry.manifest.id for entry in app.skills()] == sorted(sources)


def test_s7_adding_again_changes_nothing(app: Prowess, write: Write, url: str) -> None:
    first = app.add_skill(write(version="1.0.0"))
    before = everything(url)
    again = app.add_skill(write(version="1.0.0"))
    assert again == Added(first.ref, first.digest, "present", ())
    assert everything(url) == before


def test_s7_changed_content_under_the_same_version_is_refused(app: Prowess, write: Write, url: str) -> None:
    app.add_skill(write(version="1.0.0"))
    before = everything(url)
    with pytest.raises(Conflict) as refused:
        app.add_skill(write(body="Deploy without care.", version="1.0.0"))
    assert refused.value.code == "skill_digest_differs"
    assert everything(url) == before


def test_s7_c13_a_trailing_space_is_other_content_and_a_mode_is_not(app: Prowess, write: Write) -> None:
    folder = write(version="1.0.0")
    app.add_skill(folder)
    (folder / "SKILL.md").chmod(0o755)
    assert app.add_skill(folder).state == "present"
    with (folder / "SKILL.md").open("a") as file:
        file.write(" ")
    with pytest.raises(Conflict) as refused:
        app.add_skill(folder)
    assert refused.value.code == "skill_digest_differs"


def test_s7_without_a_version_the_next_patch_is_free(app: Prowess, write: Write) -> None:
    first = app.add_skill(write(body="one"))
    second = app.add_skill(write(body="two"))
    third = app.add_skill(write(body="three"))
    assert [added.ref.version for added in (first, second, third)] == ["0.1.0", "0.1.1", "0.1.2"]
    assert app.add_skill(write(body="two")) == Added(second.ref, second.digest, "present", ())
    assert versions(app) == ["0.1.2", "0.1.1", "0.1.0"]
    app.add_skill(write(body="four", version="3.1.4"))
    assert app.add_skill(write(body="five")).ref.version == "3.1.5"


def test_s7_a_snake_case_name_is_the_same_skill(app: Prowess, write: Write) -> None:
    """Ruling 12.1."""
    app.add_skill(write("format-json", version="1.0.0"))
    with pytest.raises(ProwessError) as refused:
        app.add_skill(write("format_json", "Other words.", version="1.0.0"))
    assert refused.value.code == "skill_digest_differs"
    assert app.skill("Format_JSON").manifest.id == "format-json"


def test_c08_two_skills_of_one_name_are_refused_in_either_order_naming_both(open_app: OpenApp, write: Write) -> None:
    folders = [write(root="one", version="1.0.0"), write(body="Differently.", root="two", version="1.0.0")]
    app = open_app()
    refusals = []
    for tenant, (first, second) in zip(("t1", "t2"), permutations(folders), strict=True):
        app.add_skill(first, tenant=tenant)
        with pytest.raises(Conflict) as refused:
            app.add_skill(second, tenant=tenant)
        assert refused.value.code == "skill_digest_differs"
        assert (refused.value.detail["other"], refused.value.detail["source"]) == (str(first), str(second))
        for language in ("en", "zh"):
            assert str(first) in refused.value.message(language)
            assert str(second) in refused.value.message(language)
        assert versions_of(app, tenant) == ["1.0.0"]
        refusals.append({**refused.value.detail, "source": "", "other": ""})
    assert refusals[0] == refusals[1]


def test_c08_without_versions_two_skills_of_one_name_are_refused_in_either_order(
    open_app: OpenApp, write: Write
) -> None:
    folders = [write(root="one"), write(body="Differently.", root="two")]
    app = open_app()
    for tenant, (first, second) in zip(("t1", "t2"), permutations(folders), strict=True):
        app.add_skill(first, tenant=tenant)
        with pytest.raises(Conflict) as refused:
            app.add_skill(second, tenant=tenant)
        assert refused.value.code == "skill_from_elsewhere"
        assert (refused.value.detail["other"], refused.value.detail["source"]) == (str(first), str(second))
        assert versions_of(app, tenant) == ["0.1.0"]


def versions_of(app: Prowess, tenant: str) -> list[str]:
    return [entry.manifest.version for entry in app.skill_versions("deploy", tenant=tenant)]


def test_c08_the_name_of_a_built_in_is_taken(open_app: OpenApp, write: Write, url: str) -> None:
    app = open_app(manual("deploy"), tool("lookup"))
    before = everything(url)
    for name, version in (("deploy", "1.0.0"), ("deploy", "9.0.0"), ("lookup", "2.0.0")):
        with pytest.raises(Conflict) as refused:
            app.add_skill(write(name, version=version))
        assert refused.value.code in ("skill_name_taken", "skill_digest_differs")
        assert "built-in" in refused.value.message()
    assert everything(url) == before


def test_s7_of_many_that_add_at_once_each_is_there_once(app: Prowess, write: Write, url: str) -> None:
    folder = write(version="1.0.0")
    added = at_once([lambda: app.add_skill(folder)] * 6)
    assert sorted(getattr(item, "state", item) for item in added) == ["added", *["present"] * 5]
    assert len(rows(url, "SELECT version FROM skill_versions")) == 1

    folders = [write(body=f"number {number}", root=f"root{number}", version=f"1.0.{number}") for number in range(1, 7)]
    added = at_once([lambda folder=folder: app.add_skill(folder) for folder in folders])
    assert sorted(item.ref.version for item in added) == [f"1.0.{number}" for number in range(1, 7)]


def test_tenants_have_catalogs_of_their_own(app: Prowess, write: Write) -> None:
    app.add_skill(write(), tenant="t1")
    assert served(app, "m1", tenant="t1") == "0.1.0 Deploy with care."
    assert served(app, "m1") == "unknown"
    with pytest.raises(NotFound):
        app.skill("deploy")


# --- serving ---------------------------------------------------------------------------------------------------------


def test_t5_an_installed_skill_is_found_by_name_and_by_keywords(app: Prowess, write: Write) -> None:
    app.add_skill(write(version="1.0.0", triggers='{keywords: [docker, 部署, rollout], patterns: [".*"]}'))
    assert "patterns_ignored" in app.skill("deploy").notes
    assert turn(app, "m0", "anything else at all").selection is None
    for number, text in enumerate(["docker rollout please", "用docker部署"], start=1):
        selection = turn(app, f"m{number}", text).selection
        assert selection is not None
        assert (selection.skill_id, selection.kind, selection.trigger) == ("deploy", "prompt", "rule")
    assert served(app, "m9") == "1.0.0 Deploy with care."


def test_s5_an_installed_skill_with_tools_serves_as_a_prompt(app: Prowess, write: Write) -> None:
    folder = write(version="1.0.0")
    (folder / "prowess.yaml").write_text("kind: tool\ntools:\n  - name: go\n    description: goes\n")
    assert "served_as_prompt" in app.add_skill(folder).notes
    assert app.skill("deploy").manifest.kind == "prompt"
    assert served(app, "m1") == "1.0.0 Deploy with care."
    assert app.add_skill(folder).state == "present"


# --- removing and restoring ------------------------------------------------------------------------------------------


def test_q1_a_removed_skill_is_gone_and_can_be_restored(app: Prowess, write: Write) -> None:
    old, new = write(body="old", version="1.0.0", root="a"), write(body="new", version="2.0.0", root="b")
    app.add_skill(old)
    app.add_skill(new)
    assert served(app, "m1") == "2.0.0 new"
    assert app.remove_skill("deploy", "2.0.0") == 1
    assert served(app, "m2") == "1.0.0 old"
    assert app.remove_skill("deploy") == 1
    assert served(app, "m3") == "unknown"
    assert [entry.manifest.id for entry in app.skills() if entry.source != "built-in"] == []
    for version in (None, "1.0.0", "2.0.0"):
        with pytest.raises(NotFound):
            app.remove_skill("deploy", version)

    restored = app.add_skill(new)
    assert (restored.ref.version, restored.state) == ("2.0.0", "restored")
    assert served(app, "m4") == "2.0.0 new"
    assert versions(app) == ["2.0.0"]
    kinds = [(event.type, event.data.get("restored", False)) for event in app.events() if event.type[:6] == "skill."]
    assert [kind for kind in kinds if kind[0] != "skill.selected"] == [
        ("skill.added", False),
        ("skill.added", False),
        ("skill.removed", False),
        ("skill.removed", False),
        ("skill.added", True),
    ]


def test_s7_removal_does_not_free_a_version_for_other_content(app: Prowess, write: Write) -> None:
    app.add_skill(write(version="1.0.0"))
    app.remove_skill("deploy")
    with pytest.raises(Conflict) as refused:
        app.add_skill(write(body="Other.", version="1.0.0"))
    assert refused.value.code == "skill_digest_differs"
    assert app.add_skill(write(body="Other.")).ref.version == "1.0.1"


@pytest.mark.parametrize(
    ("skill", "version", "code"),
    [
        ("ghost", None, "skill_not_found"),
        ("../deploy", None, "skill_not_found"),
        ("deploy", "9.9.9", "version_not_found"),
        ("notes", None, "skill_built_in"),
        ("notes", "1.0.0", "skill_built_in"),
    ],
)
def test_what_cannot_be_removed(open_app: OpenApp, write: Write, skill: str, version: str | None, code: str) -> None:
    app = open_app(manual("notes"))
    app.add_skill(write(version="1.0.0"))
    with pytest.raises((NotFound, InvalidInput)) as refused:
        app.remove_skill(skill, version)
    assert refused.value.code == code
    assert served(app, "m1") == "1.0.0 Deploy with care."


# --- exporting -------------------------------------------------------------------------------------------------------


def test_s1_an_exported_skill_comes_back_the_same(app: Prowess, write: Write, tmp_path: Path) -> None:
    folder = write(version="1.2.0", license="MIT", colour="red")
    (folder / "references").mkdir()
    (folder / "references" / "notes.md").write_text("notes")
    app.add_skill(folder)
    app.add_skill(write(body="newer", version="2.0.0", root="b"))
    exported = app.export_skill("deploy", tmp_path / "out", version="1.2.0")
    assert exported == tmp_path / "out" / "deploy"
    one, other = read_skill_folder(folder), read_skill_folder(exported)
    assert other.manifest.model_dump(exclude={"extra"}) == one.manifest.model_dump(exclude={"extra"})
    assert other.body.strip() == one.body.strip()
    assert (exported / "references" / "notes.md").read_text() == "notes"


def test_s1_a_built_in_skill_can_be_exported(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app(manual("notes"))
    exported = app.export_skill("notes", tmp_path)
    assert read_skill_folder(exported).body.strip() == "# notes\n\nDo as notes says."
    with pytest.raises(NotFound):
        app.export_skill("ghost", tmp_path)


# --- choices (T6) ----------------------------------------------------------------------------------------------------


@pytest.fixture
def two_versions(app: Prowess, write: Write) -> Prowess:
    app.add_skill(write(body="old", version="1.0.0", root="a"))
    app.add_skill(write(body="new", version="2.0.0", root="b"))
    return app


def test_t6_a_user_disables_for_themselves(two_versions: Prowess) -> None:
    app = two_versions
    bound = app.bind_skill("deploy", user="u1", enabled=False)
    assert (bound.target_kind, bound.target_id, bound.enabled, bound.pinned_version) == ("user", "u1", False, None)
    assert served(app, "m1") == "unknown"
    assert served(app, "m1", user="u2", conversation="c2") == "2.0.0 new"
    app.bind_skill("deploy", user="u1", enabled=True)
    assert served(app, "m2") == "2.0.0 new"


def test_t6_a_builder_disables_for_an_agent(two_versions: Prowess) -> None:
    app = two_versions
    app.bind_skill("deploy", agent="mira", enabled=False)
    app.bind_skill("deploy", user="u1", enabled=True)
    assert served(app, "m1") == "unknown"
    assert served(app, "m1", agent="nova", conversation="c2") == "2.0.0 new"
    assert [entry.manifest.id for entry in app.candidates(user="u1", agent="mira")].count("deploy") == 0


def test_t6_pins_of_user_and_agent(two_versions: Prowess) -> None:
    app = two_versions
    app.bind_skill("deploy", agent="mira", pin="1.0.0")
    assert served(app, "m1") == "1.0.0 old"
    app.bind_skill("deploy", user="u1", pin="2.0.0")
    assert served(app, "m2") == "2.0.0 new"
    app.bind_skill("deploy", user="u1", unpin=True)
    assert served(app, "m3") == "1.0.0 old"
    app.remove_skill("deploy", "1.0.0")
    assert served(app, "m4") == "unknown"
    app.bind_skill("deploy", agent="mira", unpin=True)
    assert served(app, "m5") == "2.0.0 new"


def test_t6_what_is_not_named_stays_as_it_was(two_versions: Prowess) -> None:
    app = two_versions
    app.bind_skill("deploy", user="u1", pin="1.0.0")
    assert app.bind_skill("deploy", user="u1", enabled=False).pinned_version == "1.0.0"
    assert not app.bind_skill("deploy", user="u1", pin="2.0.0").enabled
    back = app.bind_skill("deploy", user="u1", enabled=True)
    assert (back.enabled, back.pinned_version) == (True, "2.0.0")
    events = [event for event in app.audit(skill=None) if event.type == "skill.bound"]
    assert [(event.user, event.target, event.data) for event in reversed(events)] == [
        ("u1", "deploy", {"enabled": True, "pinned_version": "1.0.0"}),
        ("u1", "deploy", {"enabled": False, "pinned_version": "1.0.0"}),
        ("u1", "deploy", {"enabled": False, "pinned_version": "2.0.0"}),
        ("u1", "deploy", {"enabled": True, "pinned_version": "2.0.0"}),
    ]


@pytest.mark.parametrize(
    ("skill", "choice", "code"),
    [
        ("ghost", {"user": "u1", "enabled": False}, "skill_not_found"),
        ("deploy", {"user": "u1", "pin": "9.9.9"}, "version_not_found"),
        ("deploy", {"user": "u1", "agent": "mira", "enabled": False}, "target_missing"),
        ("deploy", {"enabled": False}, "target_missing"),
        ("deploy", {"user": "", "enabled": False}, "bad_id"),
    ],
    ids=["skill", "version", "both", "neither", "empty"],
)
def test_t6_choices_that_cannot_be_made(
    two_versions: Prowess, url: str, skill: str, choice: dict[str, Any], code: str
) -> None:
    before = everything(url)
    with pytest.raises(ProwessError) as refused:
        two_versions.bind_skill(skill, **choice)
    assert refused.value.code == code
    assert everything(url) == before


def test_t4_with_everything_disabled_explicit_commands_are_blocked_too(open_app: OpenApp) -> None:
    app = open_app(manual("notes"), tool("lookup"))
    for entry in app.skills():
        app.bind_skill(entry.manifest.id, user="u1", enabled=False)
    assert app.candidates(user="u1", agent="mira") == []
    known, unknown = turn(app, "m1", "/notes please"), turn(app, "m2", "/nosuch please")
    assert known.selection is unknown.selection is None
    assert known.reply.replace("notes", "nosuch") == unknown.reply
    assert known.events[-2:] == unknown.events[-2:]
    assert app.runs(user="u1") == []


# --- at once, everywhere (C10) ---------------------------------------------------------------------------------------


def test_c10_every_change_is_in_force_at_once_in_another_open_app(open_app: OpenApp, write: Write) -> None:
    here, there = open_app(), open_app()
    assert served(there, "m0") == "unknown"
    here.add_skill(write(body="old", version="1.0.0", root="a"))
    assert served(there, "m1") == "1.0.0 old"
    here.add_skill(write(body="new", version="1.1.0", root="b"))
    assert served(there, "m2") == "1.1.0 new"
    here.bind_skill("deploy", user="u1", pin="1.0.0")
    assert served(there, "m3") == "1.0.0 old"
    here.bind_skill("deploy", user="u1", enabled=False)
    assert served(there, "m4") == "unknown"
    here.bind_skill("deploy", user="u1", enabled=True, unpin=True)
    here.remove_skill("deploy", "1.1.0")
    assert served(there, "m5") == "1.0.0 old"
    here.remove_skill("deploy")
    assert served(there, "m6") == "unknown"
    here.add_skill(write(body="old", version="1.0.0", root="a"))
    assert served(there, "m7") == "1.0.0 old"
    assert served(open_app(), "m8") == "1.0.0 old"


def test_c10_every_path_serves_one_revision(open_app: OpenApp, write: Write) -> None:
    here, there = open_app(), open_app()
    here.add_skill(write(body="old", version="1.0.0", root="a"))
    here.add_skill(write(body="new", version="1.1.0", root="b"))
    for app in (here, there, open_app()):
        assert app.skill("deploy").manifest.version == "1.1.0"
        assert [entry.manifest.version for entry in app.skills() if entry.manifest.id == "deploy"] == ["1.1.0"]
        found = [
            item.manifest.version for item in app.candidates(user="u1", agent="mira") if item.manifest.id == "deploy"
        ]
        assert found == ["1.1.0"]


def test_c10_g4_a_tool_disabled_in_mid_turn_is_not_called(open_app: OpenApp) -> None:
    here, there = open_app(tool("lookup")), open_app(tool("lookup"))
    plan = here.begin(request("m1", "hello"))
    assert [offer.name for offer in plan.tools if offer.name == "tool.lookup"] == ["tool.lookup"]
    there.bind_skill("lookup", user="u1", enabled=False)
    outcome = here.call(plan, "tool.lookup", {"text": "x"})
    assert (outcome.status, outcome.decision and outcome.decision.reason) == ("denied", "skill_disabled")


def test_g2_consent_can_be_taken_back_from_a_skill_that_is_gone(open_app: OpenApp) -> None:
    """What was granted can be revoked, whether or not the skill is still there; or it would revive with the skill."""
    open_app(recaller()).grant(user="u1", skill="recaller", code="memory:read")
    without = open_app()
    assert [grant.skill_id for grant in without.grants(user="u1")] == ["recaller"]
    assert without.revoke(user="u1", skill="recaller", code="memory:read") == 1
    assert without.grants(user="u1") == []


# --- what must not take the others with it ---------------------------------------------------------------------------


def test_t6_choices_made_at_the_same_moment_are_all_kept(two_versions: Prowess) -> None:
    app = two_versions
    for number in range(4):
        at_once(
            [
                lambda: app.bind_skill("deploy", user="u1", enabled=False),
                lambda: app.bind_skill("deploy", user="u1", pin="1.0.0"),
            ]
        )
        kept = app.bind_skill("deploy", user="u1")
        assert (kept.enabled, kept.pinned_version) == (False, "1.0.0")
        assert served(app, f"m{number}") == "unknown"
        app.bind_skill("deploy", user="u1", enabled=True, unpin=True)


@pytest.mark.parametrize("column", ["manifest", "notes"])
@pytest.mark.parametrize("content", ["{", "{}", "7"])
def test_c05_a_skill_that_cannot_be_read_does_not_take_the_others_with_it(
    app: Prowess, write: Write, url: str, caplog: pytest.LogCaptureFixture, open_app: OpenApp, column: str, content: str
) -> None:
    app.add_skill(write(version="1.0.0"))
    app.add_skill(write("broken", version="1.0.0"))
    execute(url, f"UPDATE skill_versions SET {column} = '{content}' WHERE skill_id = 'broken'")
    again = open_app()
    assert served(again, "m1") == "1.0.0 Deploy with care."
    assert turn(again, "m2", "hello").reply == "plain"
    if column == "manifest":
        assert "skill broken@1.0.0 cannot be read" in caplog.text
        assert turn(again, "m3", "/broken").selection is None


def test_c08_a_built_in_that_comes_later_wins_and_nobody_is_locked_out(
    open_app: OpenApp, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write(version="1.0.0")
    before = open_app()
    before.add_skill(folder)
    before.add_skill(write("notes", version="1.0.0"))
    after = open_app(manual("deploy", version="3.0.0"))
    assert served(after, "m1") == "3.0.0 Do as deploy says."
    assert turn(after, "m2", "/notes").selection is not None
    assert str(folder) in caplog.text
    with pytest.raises(InvalidInput) as refused:
        after.remove_skill("deploy")
    assert refused.value.code == "skill_built_in"
    assert served(open_app(), "m3") == "1.0.0 Deploy with care."
