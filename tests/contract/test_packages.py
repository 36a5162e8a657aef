"""Skills from outside on both databases: quarantine, approval, trust, locks, rollback, merge (U11, ruling 8)."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.kit import OpenApp, at_once, everything, execute, rows, turn

from prowess import Prowess
from prowess.errors import Conflict, ProwessError, SkillFileError
from prowess.packages.model import InstallState
from prowess.packages.signing import new_key, sign, write_signature
from prowess.skills.skill_md import read_skill_folder
from prowess.skills.trust import Trust

Write = Callable[..., Path]
HOST = {"network": {"allowed": True, "domains": ["api.example.org"]}}
HIGH = {"memory": {"write_layers": ["L3"]}}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a skill folder of its own for each call."""
    count = iter(range(1_000))

    def write_one(
        version: str | None = "1.0.0", body: str = "Deploy with care.", *, name: str = "deploy", **more: Any
    ) -> Path:
        folder = tmp_path / f"at-{next(count)}" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: How to {name}.\n---\n\n{body}\n")
        files = more.pop("files", {})
        beside = ({} if version is None else {"version": version}) | more
        if beside:
            (folder / "prowess.yaml").write_text(json.dumps(beside, indent=1))
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        return folder

    return write_one


@pytest.fixture
def key(tmp_path: Path) -> Path:
    new_key(tmp_path / "key")
    return tmp_path / "key"


def signed(folder: Path, key: Path) -> Path:
    write_signature(folder, sign(read_skill_folder(folder), key))
    return folder


def current(app: Prowess, skill: str = "deploy") -> str | None:
    return next((entry.manifest.version for entry in app.skills() if entry.manifest.id == skill), None)


def code(action: Callable[[], Any]) -> str:
    with pytest.raises(ProwessError) as error:
        action()
    for language in ("en", "zh"):
        assert not error.value.message(language).startswith("error.")
        assert not error.value.remedy(language).startswith("remedy.")
    return error.value.code


def served(app: Prowess, message_id: str) -> str:
    result = turn(app, message_id, "/deploy now")
    return "unknown" if result.selection is None else result.selection.version


# --- installing ------------------------------------------------------------------------------------------------------


def test_u11_a_plain_skill_serves_at_once_and_leaves_no_quarantine(app: Prowess, write: Write, url: str) -> None:
    folder = write()
    install = app.install_skill(folder)
    assert (install.state, install.reason, install.outcome) == ("active", "clean", "added")
    assert (install.skill, install.version, install.trust, install.level) == ("deploy", "1.0.0", "community", 0)
    assert install.digest == read_skill_folder(folder).digest == app.skill("deploy").digest
    assert app.skill("deploy").trust is Trust.COMMUNITY
    assert app.skill("memory-recall").trust is Trust.BUILT_IN
    assert rows(url, "SELECT * FROM quarantined_files") == []
    assert [event.type for event in app.audit()][::-1] == [
        "install.quarantined", "install.checked", "skill.added", "install.active",
    ]  # fmt: skip
    assert app.install(install.id) == install
    again = app.install_skill(folder)
    assert (again.state, again.outcome) == ("active", "present")


def test_u11_what_is_wider_waits_and_serves_nobody(app: Prowess, write: Write, url: str) -> None:
    app.add_skill(write())
    install = app.install_skill(write("1.1.0", permissions=HOST, files={"scripts/go.py": "print(1)\n"}))
    assert (install.state, install.reason) == ("awaiting_approval", "wider")
    assert install.changes is not None
    assert install.changes.wider == (("network", "api.example.org"), ("scripts", "brings scripts"))
    assert install.changes.scripts == (("added", "scripts/go.py"),)
    assert (install.changes.against, install.changes.level) == ("1.0.0", (0, 2))
    assert [entry.manifest.version for entry in app.skill_versions("deploy")] == ["1.0.0"]
    assert served(app, "m1") == "1.0.0"
    assert code(lambda: app.skill("deploy", "1.1.0")) == "version_not_found"
    assert code(lambda: app.approve_install(install.id, digest="0" * 64)) == "install_digest"
    approved = app.approve_install(install.id, digest=install.digest)
    assert (approved.state, approved.reason, approved.decided_by) == ("active", "approved", "operator")
    assert served(app, "m2") == "1.1.0"
    assert code(lambda: app.approve_install(install.id)) == "install_decided"
    assert code(lambda: app.reject_install(install.id)) == "install_decided"
    assert rows(url, "SELECT * FROM quarantined_files") == []


def test_u11_a_first_skill_that_asks_for_something_waits_and_can_be_turned_down(app: Prowess, write: Write) -> None:
    install = app.install_skill(write(permissions=HOST))
    assert install.state == "awaiting_approval"
    assert current(app) is None
    rejected = app.reject_install(install.id)
    assert (rejected.state, rejected.reason) == ("rejected", "turned_down")
    assert current(app) is None
    assert [item.state for item in app.installs(states=["rejected"])] == [InstallState.REJECTED]
    assert code(lambda: app.install("install-none")) == "install_not_found"
    assert code(lambda: app.installs(states=["never"])) == "bad_choice"


def test_u11_review_always_asks_for_the_plainest_skill(app: Prowess, write: Write) -> None:
    install = app.install_skill(write(), review="always")
    assert (install.state, install.reason) == ("awaiting_approval", "review_always")
    assert app.approve_install(install.id).state == "active"
    assert code(lambda: app.install_skill(write(), review="never")) == "bad_choice"  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [{"filesystem": {"read": ["/**"]}}, {"network": {"domains": ["*"], "allowed": True}}])
def test_u11_a_manifest_that_asks_for_everything_is_refused_with_the_line(
    app: Prowess, write: Write, asked: dict[str, Any]
) -> None:
    app.add_skill(write())
    install = app.install_skill(write("1.1.0", permissions=asked))
    assert (install.state, install.reason) == ("rejected", "check_failed")
    issue = next(item for item in install.told()["issues"] if item["severity"] == "error")
    assert (issue["code"], issue["file"]) == ("permission_wildcard", "prowess.yaml")
    assert issue["line"] > 1
    told = next(item for item in install.told("zh")["issues"] if item["code"] == issue["code"])
    assert told["message"] != issue["message"]
    assert current(app) == "1.0.0"
    folder = write("1.2.0", permissions=asked)
    with pytest.raises(SkillFileError) as refused:
        app.add_skill(folder)
    assert refused.value.detail["file"] == str(folder / "prowess.yaml")


def test_c06_archives_that_mean_harm_leave_the_installed_skills_untouched(
    app: Prowess, write: Write, tmp_path: Path, url: str
) -> None:
    app.add_skill(write())
    before = everything(url)
    file = tmp_path / "deploy.tar"
    with tarfile.open(file, "w") as archive:
        entry = tarfile.TarInfo("deploy/../../SKILL.md")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    assert code(lambda: app.install_skill(file)) == "archive_name"
    assert code(lambda: app.install_skill(tmp_path / "none")) == "path_missing"
    after = everything(url)
    refusals = [event for event in app.audit() if event.type == "install.refused"]
    assert [event.data["code"] for event in refusals] == ["path_missing", "archive_name"]
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"events", "skill_audit_events"}


def test_u11_an_archive_is_installed_as_its_folder_would_be(app: Prowess, write: Write, tmp_path: Path) -> None:
    folder = write(files={"scripts/go.sh": "#!/bin/sh\n", "assets/a.txt": "a"})
    with tarfile.open(tmp_path / "deploy.tar.gz", "w:gz") as archive:
        archive.add(folder, "deploy")
    install = app.install_skill(tmp_path / "deploy.tar.gz")
    assert (install.kind, install.digest) == ("archive", read_skill_folder(folder).digest)
    assert app.approve_install(install.id).state == "active"
    assert {file.path for file in app._parts.skills.files("default", "deploy")} == {
        "SKILL.md", "prowess.yaml", "scripts/go.sh", "assets/a.txt",
    }  # fmt: skip


def test_s7_other_content_under_an_installed_version_is_rejected(app: Prowess, write: Write) -> None:
    app.add_skill(write())
    install = app.install_skill(write(body="Otherwise."))
    assert (install.state, install.reason) == ("rejected", "skill_digest_differs")
    assert app.install_skill(write("9.0.0", name="memory-recall")).reason == "skill_name_taken"


def test_u11_an_own_folder_needs_no_second_yes_the_first_time_only(app: Prowess, write: Write) -> None:
    assert app.add_skill(write(permissions=HOST)).state == "added"
    wider = write("1.1.0", permissions=HOST | {"filesystem": {"read": ["notes/**"]}})
    assert code(lambda: app.add_skill(wider)) == "install_waits"
    (waiting,) = app.installs(states=["awaiting_approval"])
    assert waiting.changes is not None
    assert waiting.changes.wider == (("fs:read", "notes/**"),)
    app.approve_install(waiting.id)
    assert app.add_skill(wider).state == "present"
    app.remove_skill("deploy", "1.1.0")
    assert current(app) == "1.0.0"


# --- who may approve, and what -----------------------------------------------------------------------------------------


def test_u8_only_a_person_who_is_named_approves(app: Prowess, write: Write) -> None:
    install = app.install_skill(write(permissions=HOST), by="ann")
    assert install.installed_by == "ann"
    assert code(lambda: app.approve_install(install.id, by="ben")) == "not_an_approver"
    assert code(lambda: app.reject_install(install.id, by="ben")) == "not_an_approver"
    app.add_approver("ben", code="skill:install")
    approved = app.approve_install(install.id, by="ben")
    assert (approved.state, approved.decided_by) == ("active", "ben")


def test_u8_from_level_3_on_two_people_are_needed(app: Prowess, write: Write, key: Path) -> None:
    app.trust_key(key.with_name("key.pub"), name="ops")
    app.add_approver("ann", code="*")
    app.add_approver("ben", code="*")
    install = app.install_skill(signed(write(permissions=HIGH), key), by="ann")
    assert (install.state, install.level, install.trust) == ("awaiting_approval", 3, "verified")
    assert code(lambda: app.approve_install(install.id, by="ann")) == "approver_is_installer"
    assert app.approve_install(install.id, by="ben").state == "active"


def test_u11_what_changed_since_it_was_shown_is_shown_again(app: Prowess, write: Write) -> None:
    """An approval is for exactly what was named as new: where the installed version moved, that is something else."""
    app.add_skill(write(permissions=HOST))
    install = app.install_skill(write("1.2.0", permissions=HOST | {"env_vars": {"read": ["TZ"]}}))
    assert install.changes is not None
    assert install.changes.wider == (("env:read", "TZ"),)
    app.add_skill(write("1.1.0", body="Asks for nothing."))
    assert code(lambda: app.approve_install(install.id)) == "install_changed"
    shown = app.install(install.id).changes
    assert shown is not None
    assert shown.wider == (("env:read", "TZ"), ("network", "api.example.org"))
    assert app.approve_install(install.id).state == "active"


def test_u11_files_that_changed_in_the_database_are_not_let_in(app: Prowess, write: Write, url: str) -> None:
    install = app.install_skill(write(permissions=HOST))
    execute(url, "DELETE FROM quarantined_files WHERE path = 'prowess.yaml'")
    assert code(lambda: app.approve_install(install.id)) == "install_digest"
    assert current(app) is None


def test_u11_what_a_crash_left_in_quarantine_is_checked_later(
    app: Prowess, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = app._parts.packages.installs
    with monkeypatch.context() as patch:
        patch.setattr(service, "_settle", lambda *_args, **_more: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            app.install_skill(write())
    (left,) = app.installs()
    assert (left.state, current(app)) == ("quarantined", None)
    assert app.check_install(left.id).state == "active"
    assert current(app) == "1.0.0"


# --- signatures and trust ------------------------------------------------------------------------------------------------


def test_u11_a_signed_skill_is_verified_by_a_trusted_key_alone(app: Prowess, write: Write, key: Path) -> None:
    folder = signed(write(), key)
    before = app.install_skill(folder)
    assert (before.trust, before.signer) == ("community", None)
    assert [item["code"] for item in before.told()["issues"] if item["severity"] == "warning"] == ["signer_unknown"]
    trusted = app.trust_key(key.with_name("key.pub"), name="acme", prefix="deploy")
    after = app.install_skill(folder)
    assert (after.trust, after.signer, after.outcome) == ("verified", trusted.key_id, "present")
    assert (app.skill("deploy").trust, app.skill("deploy").signer) == (Trust.VERIFIED, trusted.key_id)
    other = app.install_skill(signed(write(name="deployment"), key))
    assert other.trust == "community"  # a prefix is whole words
    assert app.add_skill(write()).state == "present"
    assert app.skill("deploy").trust is Trust.VERIFIED


def test_u11_a_changed_file_breaks_the_signature(app: Prowess, write: Write, key: Path) -> None:
    app.trust_key(key.with_name("key.pub"), name="acme")
    folder = signed(write(), key)
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "And more.\n")
    install = app.install_skill(folder)
    assert (install.state, install.reason) == ("rejected", "signature_invalid")
    (folder / "prowess.sig").write_text("{}")
    assert app.install_skill(folder).reason == "signature_malformed"


def test_v3_what_exceeds_the_cap_of_its_trust_is_refused_with_the_line(app: Prowess, write: Write, key: Path) -> None:
    install = app.install_skill(write(permissions=HIGH))
    assert (install.state, install.reason, install.level) == ("rejected", "permission_level_high", 3)
    issue = next(item for item in install.told()["issues"] if item["code"] == "permission_level_high")
    assert issue["file"] == "prowess.yaml"
    assert issue["line"] == 5
    app.trust_key(key.with_name("key.pub"), name="acme")
    assert app.install_skill(signed(write(permissions=HIGH), key)).state == "awaiting_approval"
    learned = app.install_skill(write(name="learned", trigger_source="user_correction", permissions=HOST))
    assert (learned.trust, learned.reason) == ("generated", "check_failed")
    assert "sec_level_over_cap" in {item["code"] for item in learned.told()["issues"]}


def test_u11_a_revoked_key_lowers_what_it_signed_and_quarantines_what_asks_too_much(
    app: Prowess, write: Write, key: Path
) -> None:
    app.trust_key(key.with_name("key.pub"), name="acme")
    app.install_skill(signed(write(), key))
    high = app.install_skill(signed(write(name="keeper", permissions=HIGH), key))
    app.add_approver("ben", code="skill:install")
    app.approve_install(high.id, by="ben")
    assert current(app, "keeper") == "1.0.0"
    taken = app.revoke_key("acme")
    assert taken == [("keeper", "1.0.0")]
    assert current(app, "keeper") is None
    assert (current(app), app.skill("deploy").trust, app.skill("deploy").signer) == ("1.0.0", Trust.COMMUNITY, None)
    again = app.install(high.id)
    assert (again.state, again.reason) == ("quarantined", "key_revoked")
    assert app.check_install(high.id).reason == "permission_level_high"
    assert code(lambda: app.revoke_key("acme")) == "key_not_found"
    (known,) = app.trusted_keys()
    assert known.revoked_at is not None


def test_u11_another_signer_or_none_needs_a_yes(app: Prowess, write: Write, key: Path, tmp_path: Path) -> None:
    new_key(tmp_path / "other")
    app.trust_key(key.with_name("key.pub"), name="acme")
    app.trust_key(tmp_path / "other.pub", name="other")
    app.install_skill(signed(write(), key))
    assert app.install_skill(signed(write("1.0.1", "x"), key)).state == "active"
    unsigned = app.install_skill(write("1.0.2", "y"))
    other = app.install_skill(signed(write("1.0.3", "z"), tmp_path / "other"))
    assert (unsigned.reason, other.reason) == ("signer_changed", "signer_changed")
    assert current(app) == "1.0.1"


def test_g15_an_agent_has_no_road_to_installing(app: Prowess, write: Write, key: Path) -> None:
    from prowess.events.model import Actor

    agent, parts = Actor("agent", "mira"), app._parts.packages
    roads: list[Callable[[], Any]] = [
        lambda: parts.installs.install(actor=agent, tenant="default", path=write()),
        lambda: parts.installs.approve(actor=agent, tenant="default", install_id="x"),
        lambda: parts.installs.reject(actor=agent, tenant="default", install_id="x"),
        lambda: parts.keys.trust(actor=agent, tenant="default", key=key.with_name("key.pub"), name="x"),
        lambda: parts.revisions.rollback(actor=agent, tenant="default", skill="deploy"),
        lambda: parts.revisions.unlock(actor=agent, tenant="default", skill="deploy"),
    ]
    assert {code(road) for road in roads} == {"agent_cannot_decide"}


# --- versions ------------------------------------------------------------------------------------------------------------


def test_u11_a_patch_may_not_ask_for_more(app: Prowess, write: Write) -> None:
    app.add_skill(write())
    install = app.install_skill(write("1.0.1", permissions=HOST))
    assert (install.state, install.reason) == ("rejected", "skill_semver")
    issue = next(item for item in install.told()["issues"] if item["code"] == "skill_semver")
    assert issue["file"] == "prowess.yaml"
    assert "1.1.0" in issue["remedy"]
    assert app.install_skill(write("1.1.0", permissions=HOST)).state == "awaiting_approval"


def test_u11_files_without_a_version_get_the_one_that_their_change_needs(app: Prowess, write: Write) -> None:
    folder = write(None)
    assert app.add_skill(folder).ref.version == "0.1.0"
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "more\n")
    assert app.add_skill(folder).ref.version == "0.1.1"
    (folder / "prowess.yaml").write_text(json.dumps({"permissions": HOST}))
    assert code(lambda: app.add_skill(folder)) == "install_waits"
    (waiting,) = app.installs(states=["awaiting_approval"])
    assert app.approve_install(waiting.id).version == "0.2.0"


def test_u11_a_skill_for_a_newer_prowess_is_refused(app: Prowess, write: Write) -> None:
    install = app.install_skill(write(dependencies={"min_agent_version": "99.0"}))
    assert (install.state, install.reason) == ("rejected", "agent_too_old")
    assert app.install_skill(write(dependencies={"min_agent_version": ">=0.1"})).state == "active"


def test_u11_rolled_back_in_one_command_for_everybody_at_once(open_app: OpenApp, write: Write) -> None:
    app, beside = open_app(), open_app()
    first = app.add_skill(write())
    app.add_skill(write("1.1.0", "Worse."))
    app.bind_skill("deploy", user="u1", pin="1.1.0")
    assert served(beside, "m1") == "1.1.0"
    lock = app.rollback_skill("deploy")
    assert (lock.version, lock.digest) == ("1.0.0", first.digest)
    assert (served(app, "m2"), served(beside, "m3")) == ("1.0.0", "1.0.0")
    app.add_skill(write("1.2.0", "Better?"))
    assert current(beside) == "1.0.0"
    assert code(lambda: app.remove_skill("deploy", "1.0.0")) == "version_locked"
    digest = app.skill("deploy", "1.1.0").digest
    assert app.lock_skill("deploy", f"sha256:{digest[:12]}").version == "1.1.0"
    assert [item.version for item in app.skill_locks()] == ["1.1.0"]
    assert app.unlock_skill("deploy")
    assert not app.unlock_skill("deploy")
    assert current(beside) == "1.2.0"
    assert app.rollback_skill("deploy", "1.0.0").version == "1.0.0"
    assert code(lambda: app.rollback_skill("deploy")) == "nothing_to_roll_back"
    assert code(lambda: app.rollback_skill("deploy", "7.0.0")) == "version_not_found"
    assert code(lambda: app.rollback_skill("memory-recall", "1.0.0")) == "skill_built_in"
    assert code(lambda: app.rollback_skill("none")) == "skill_not_found"
    app.remove_skill("deploy")
    assert app.skill_locks() == []


def test_u11_a_lock_whose_version_was_changed_serves_nobody(open_app: OpenApp, write: Write, url: str) -> None:
    app = open_app()
    app.add_skill(write())
    app.lock_skill("deploy")
    execute(url, "UPDATE skill_locks SET digest = 'other'", "UPDATE skill_catalogs SET revision = revision + 1")
    assert served(open_app(), "m1") == "unknown"


def test_u11_a_lock_file_installs_the_same_digests_and_no_others(
    open_app: OpenApp, write: Write, tmp_path: Path
) -> None:
    app = open_app()
    folder = write()
    app.add_skill(folder)
    app.add_skill(write(name="notes"))
    document = app.lock_file()
    assert [(item["id"], item["version"]) for item in document["skills"]] == [("deploy", "1.0.0"), ("notes", "1.0.0")]
    file = tmp_path / "skills.lock"
    file.write_text(json.dumps(document))
    assert [item.state for item in app.install_locked(file, tenant="t2")] == ["active", "active"]
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "x\n")
    (changed,) = app.install_locked(file, [folder], tenant="t3")
    assert (changed.state, changed.reason) == ("rejected", "locked_digest_differs")
    assert code(lambda: app.install_locked(file, [write(name="stranger")])) == "lock_file_unlisted"
    file.write_text("[]")
    assert code(lambda: app.install_locked(file)) == "lock_file_malformed"


def test_u11_a_local_edit_and_an_upstream_change_are_merged_or_the_conflict_is_shown(
    app: Prowess, write: Write, tmp_path: Path
) -> None:
    body = "one\ntwo\nthree\nfour\nfive"
    app.add_skill(write(body=body, files={"assets/a.txt": "a"}))
    mine = app.export_skill("deploy", tmp_path / "out", form="exact")
    assert read_skill_folder(mine).digest == app.skill("deploy").digest
    (mine / "SKILL.md").write_text((mine / "SKILL.md").read_text().replace("two", "TWO, mine"))
    (mine / "assets" / "mine.txt").write_text("mine")
    theirs = write("1.1.0", body.replace("five", "FIVE, theirs"), files={"assets/a.txt": "A"})
    merged = app.merge_skills(str(mine), str(theirs), tmp_path / "merged")
    assert merged.conflicts == ()
    assert merged.base == app.skill("deploy").digest
    text = (tmp_path / "merged" / "SKILL.md").read_text()
    assert "TWO, mine" in text
    assert "FIVE, theirs" in text
    assert (tmp_path / "merged" / "assets" / "a.txt").read_text() == "A"
    assert (tmp_path / "merged" / "assets" / "mine.txt").read_text() == "mine"
    assert app.install_skill(tmp_path / "merged").reason in ("clean", "check_failed")
    clash = write("1.1.0", body.replace("two", "TWO, theirs"))
    told = app.merge_skills(str(mine), str(clash), tmp_path / "clash").to_json()
    assert told["conflicts"] == 1
    marked = (tmp_path / "clash" / "SKILL.md").read_text()
    assert "<<<<<<< mine\nTWO, mine\n||||||| base\ntwo\n=======\nTWO, theirs\n>>>>>>> theirs\n" in marked
    assert code(lambda: app.merge_skills(str(mine), str(clash), tmp_path / "clash")) == "folder_exists"
    assert code(lambda: app.merge_skills(str(mine), str(clash), tmp_path / "z", base="9.9.9")) == "merge_base_missing"
    diff = app.diff_skills("deploy@1.0.0", str(write("2.0.0", permissions=HOST)))
    assert diff["wider"] == [["network", "api.example.org"]]
    assert diff["needs"] == "1.1.0"


# --- races ---------------------------------------------------------------------------------------------------------------


def test_u11_two_installs_of_one_version_at_the_same_moment(open_app: OpenApp, write: Write) -> None:
    apps = [open_app(), open_app(), open_app()]
    same = write()
    folders = [same, same, write(body="Otherwise.")]
    found = at_once([lambda app=app, folder=folder: app.install_skill(folder) for app, folder in zip(apps, folders, strict=True)])  # fmt: skip
    serving = current(apps[0])
    assert serving == "1.0.0"
    outcomes = sorted(str(item.outcome or item.reason) for item in found)
    assert outcomes in (
        ["added", "present", "skill_digest_differs"],
        ["added", "skill_digest_differs", "skill_digest_differs"],
    )


def test_u11_one_of_two_answers_counts(open_app: OpenApp, write: Write) -> None:
    one, other = open_app(), open_app()
    install = one.install_skill(write(permissions=HOST))

    def answer(action: Callable[[], Any]) -> str:
        try:
            return str(action().state)
        except Conflict as conflict:
            return conflict.code

    said = at_once([lambda: answer(lambda: one.approve_install(install.id)), lambda: answer(lambda: other.reject_install(install.id))])  # fmt: skip
    assert sorted(said) in (["active", "install_decided"], ["install_decided", "rejected"])
    state = one.install(install.id).state
    assert (current(one) == "1.0.0") == (state == "active")
