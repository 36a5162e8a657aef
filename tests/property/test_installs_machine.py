"""Installs against a small model: nothing serves without its checks and, where it is wider, a yes to exactly it (U11)."""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.support.kit import ScriptedVoice

import prowess
from prowess.errors import ProwessError
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds
from prowess.packages.model import TRANSITIONS, InstallState
from prowess.packages.signing import new_key, sign, write_signature
from prowess.skills.skill_md import read_skill_folder

ASKS = {
    "nothing": {},
    "host": {"network": {"allowed": True, "domains": ["a.example"]}},
    "much": {"memory": {"write_layers": ["L3"]}},
    "all": {"filesystem": {"read": ["/**"]}},
}


class Installs(RuleBasedStateMachine):
    """One skill, few versions, four things to ask for, one key that comes and goes."""

    @initialize()
    def open(self) -> None:
        self.clock = ManualClock(datetime(2026, 3, 1, 8, 0, tzinfo=UTC))
        self.folder = Path(tempfile.mkdtemp(prefix="installs-"))
        new_key(self.folder / "key")
        self.app = prowess.open("sqlite://", clock=self.clock, ids=SequentialIds(), voice=ScriptedVoice())
        self.app.add_approver("ben", code="skill:install")
        self.approved: set[str] = set()
        self.states: dict[str, InstallState] = {}
        self.trusted = False

    def teardown(self) -> None:
        if hasattr(self, "app"):
            self.app.close()
            shutil.rmtree(self.folder)

    @rule(
        version=st.sampled_from(["1.0.0", "1.0.1", "1.1.0", "2.0.0"]),
        asks=st.sampled_from(sorted(ASKS)),
        body=st.sampled_from(["one", "two"]),
        signed=st.booleans(),
    )
    def install(self, version: str, asks: str, body: str, signed: bool) -> None:
        folder = self.folder / f"{version}-{asks}-{body}-{signed}" / "deploy"
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(f"---\nname: deploy\ndescription: Deploys.\n---\n\n{body}\n")
            (folder / "prowess.yaml").write_text(json.dumps({"version": version, "permissions": ASKS[asks]}))
            if signed and asks != "all":
                write_signature(folder, sign(read_skill_folder(folder), self.folder / "key"))
        install = self.app.install_skill(folder)
        if asks == "all":
            assert install.state == "rejected"
        if asks == "much" and not (self.trusted and signed):
            assert install.state == "rejected"
        assert install.state in ("rejected", "awaiting_approval", "active")

    @rule(data=st.data(), by=st.sampled_from([None, "ben", "eve"]), yes=st.booleans())
    def answer(self, data: st.DataObject, by: str | None, yes: bool) -> None:
        waiting = [item.id for item in self.app.installs(states=["awaiting_approval"])]
        if not waiting:
            return
        name = data.draw(st.sampled_from(sorted(waiting)))
        before = self.app.install(name)
        try:
            after = self.app.approve_install(name, by=by) if yes else self.app.reject_install(name, by=by)
        except ProwessError as error:
            assert error.code in ("not_an_approver", "install_changed", "approver_is_installer")
            assert self.app.install(name).state == "awaiting_approval"
            return
        assert by != "eve"
        if after.state == "active":
            assert yes
            assert before.changes == after.changes
            self.approved.add(name)

    @rule(trust=st.booleans())
    def keys(self, trust: bool) -> None:
        if trust:
            self.app.trust_key(self.folder / "key.pub", name="acme")
        elif self.trusted:
            self.app.revoke_key("acme")
        self.trusted = trust

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        versions = [lock.version for lock in self.app.skill_locks()]
        try:
            lock = self.app.rollback_skill("deploy")
        except ProwessError as error:
            assert error.code in ("skill_not_found", "nothing_to_roll_back")
            return
        assert self.app.skill("deploy").manifest.version == lock.version
        if versions and data.draw(st.booleans()):
            self.app.unlock_skill("deploy")

    @invariant()
    def what_serves_was_let_in(self) -> None:
        if not hasattr(self, "app"):
            return
        found = {item.id: item for item in self.app.installs(limit=1_000)}
        active = {(item.version, item.digest): item for item in found.values() if item.state == "active"}
        for entry in self.app.skills():
            if entry.source == "built-in":
                continue
            assert (entry.manifest.version, entry.digest) in active
            permissions = entry.manifest.permissions
            assert permissions.filesystem.read == ()
            if permissions.memory.write_layers:
                assert entry.trust == "verified"
                assert self.trusted
            if permissions.network.domains:
                asked = [item for item in found.values() if item.digest == entry.digest and item.id in self.approved]
                served = [item for item in found.values() if item.changes is not None and item.changes.wider == ()]
                assert asked or served

    @invariant()
    def every_move_is_in_the_table(self) -> None:
        if not hasattr(self, "app"):
            return
        for item in self.app.installs(limit=1_000):
            before = self.states.get(item.id)
            if before is not None and before is not item.state:
                steps = {before} | TRANSITIONS[before]
                reachable = steps | {after for step in steps for after in TRANSITIONS[step]}
                assert item.state in reachable
            self.states[item.id] = item.state


def test_u11_nothing_serves_that_was_not_let_in() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Installs, settings=settings(max_examples=12, stateful_step_count=12, deadline=None)
    )
