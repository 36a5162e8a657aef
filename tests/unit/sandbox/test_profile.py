"""What a skill may declare, and what it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import InvalidInput
from prowess.sandbox.model import SandboxLimits, SandboxProfile
from prowess.sandbox.profile import CEILING, MAX_ENTRIES, compile_profile, limits_of
from prowess.skills.manifest import Constraints, ResourcePermissions


def permissions(**sections: Any) -> ResourcePermissions:
    return ResourcePermissions.model_validate(sections)


def test_s5_nothing_declared_is_nothing_permitted() -> None:
    assert compile_profile(ResourcePermissions()) == SandboxProfile()


def test_s5_what_is_declared_is_all_that_is_permitted(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "one.txt").touch()
    found = compile_profile(
        permissions(
            filesystem={
                "read": [f"{tmp_path}/in/**", f"{tmp_path}/one.txt"],
                "write": [f"{tmp_path}/link/**"],
                "delete": [f"{tmp_path}/link/**"],
            },
            network={"allowed": True, "domains": ["API.example.org"]},
            shell={"allowed": True, "commands": ["sort", "git"]},
            memory={"read_layers": ["L2", "L1"], "write_layers": ["L3"]},
            env_vars={"read": ["TOKEN"], "write": ["STATE"]},
        )
    )
    assert found == SandboxProfile(
        read=(f"{tmp_path}/in", f"{tmp_path}/one.txt"),
        write=(f"{tmp_path}/real",),
        delete=(f"{tmp_path}/real",),
        hosts=("api.example.org",),
        commands=("git", "sort"),
        read_environment=("TOKEN",),
        write_environment=("STATE",),
        read_layers=("L1", "L2"),
        write_layers=("L3",),
    )


def test_s5_what_is_not_switched_on_is_off() -> None:
    found = compile_profile(permissions(network={"domains": ["a.example"]}, shell={"commands": ["sort"]}))
    assert (found.hosts, found.commands) == ((), ())


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("data/**", "sandbox_path"),
        ("~/data/**", "sandbox_path"),
        ("/data/*", "sandbox_path"),
        ("/data/*.json", "sandbox_path"),
        ("/data/**/x", "sandbox_path"),
        ("/data/../etc/**", "sandbox_path"),
        ("/data//x", "sandbox_path"),
        ("/data/./x", "sandbox_path"),
        ("/data/", "sandbox_path"),
        ("/data/a\0b", "sandbox_path"),
        ("/data/a\nb", "sandbox_path"),
        ("C:\\data", "sandbox_path"),
        ("/" + "x" * 2000, "sandbox_path"),
        ("/usr", "sandbox_path_broad"),
        ("/tmp/**", "sandbox_path_broad"),
        ("/home/**", "sandbox_path_broad"),
        ("/proc/1/**", "sandbox_path_reserved"),
        ("/dev/vda", "sandbox_path_reserved"),
        ("/sys/**", "sandbox_path_reserved"),
        ("/out/x", "sandbox_path_reserved"),
        ("/skill/x", "sandbox_path_reserved"),
    ],
)
def test_s5_a_path_that_says_too_much_or_too_little_is_refused_with_its_place(path: str, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_profile(permissions(filesystem={"read": [path]}))
    assert (caught.value.code, caught.value.detail["field"]) == (code, "permissions.filesystem.read")
    for language in ("en", "zh"):
        assert "{" not in caught.value.message(language) + caught.value.remedy(language)


@pytest.mark.parametrize("kind", ["write", "delete"])
def test_s5_programs_of_the_system_are_never_changed(kind: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_profile(permissions(filesystem={kind: ["/usr/share/x/**"]}))
    assert caught.value.code == "sandbox_path_reserved"


def test_s5_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    for target, code in (
        ("/proc/1", "sandbox_path_reserved"),
        ("/etc", "sandbox_path_broad"),
        ("/", "sandbox_path_broad"),
    ):
        link = tmp_path / target.replace("/", "_")
        link.symlink_to(target)
        with pytest.raises(InvalidInput) as caught:
            compile_profile(permissions(filesystem={"read": [f"{link}/**"]}))
        assert caught.value.code == code


def test_s5_a_folder_is_named_as_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_profile(permissions(filesystem={"read": [str(tmp_path)]}))
    assert caught.value.code == "sandbox_path"


def test_s5_nothing_outside_the_operators_folders(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "inner"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    roots = [str(inside)]
    asked = permissions(filesystem={"read": [f"{inside}/**"]})
    assert compile_profile(asked, roots=roots).read == (str(inside),)
    for path in (f"{outside}/**", f"{inside}/link/**", f"{tmp_path}/**"):
        with pytest.raises(InvalidInput) as caught:
            compile_profile(permissions(filesystem={"read": [path]}), roots=roots)
        assert caught.value.code == "sandbox_path_outside"
    with pytest.raises(InvalidInput):
        compile_profile(asked, roots=[])


@pytest.mark.parametrize(
    "sections",
    [
        {"network": {"allowed": True, "domains": ["*.example.org"]}},
        {"network": {"allowed": True, "domains": ["127.0.0.1:80"]}},
        {"network": {"allowed": True, "domains": ["https://example.org"]}},
        {"network": {"allowed": True, "domains": ["localhost"]}},
        {"shell": {"allowed": True, "commands": ["/usr/bin/sort"]}},
        {"shell": {"allowed": True, "commands": ["su\\do"]}},
        {"shell": {"allowed": True, "commands": ["sort -r"]}},
        {"env_vars": {"read": ["*"]}},
        {"env_vars": {"write": ["A=B"]}},
    ],
)
def test_s5_names_are_exact(sections: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_profile(permissions(**sections))
    assert caught.value.code == "sandbox_name"


def test_s5_the_number_of_entries_is_bounded() -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_profile(permissions(filesystem={"read": [f"/data/{n}/**" for n in range(MAX_ENTRIES + 1)]}))
    assert caught.value.code == "sandbox_too_many"


def test_v2_constraints_move_limits_within_the_ceilings() -> None:
    assert limits_of(None) == SandboxLimits()
    assert (SandboxLimits().wall_ms, SandboxLimits().memory_mb) == (10_000, 200)
    lower = limits_of(Constraints(max_execution_time=50, max_memory_usage=20))
    assert (lower.wall_ms, lower.memory_mb) == (50, 20)
    highest = limits_of(Constraints(max_execution_time=10**9, max_memory_usage=10**9))
    assert (highest.wall_ms, highest.memory_mb) == (CEILING.wall_ms, CEILING.memory_mb) == (30_000, 512)


_PIECES = st.lists(
    st.sampled_from(["/", "..", ".", "*", "**", "~", "data", "\0", " ", "proc", "tmp", "usr"]), max_size=8
)


@given(_PIECES.map("".join))
def test_s5_whatever_is_declared_comes_to_a_plain_path_or_a_refusal(path: str) -> None:
    try:
        found = compile_profile(permissions(filesystem={"write": [path]})).write
    except (InvalidInput, ValueError):
        return
    assert len(found) == 1
    assert found[0].startswith("/")
    assert not any(part in ("", ".", "..") for part in found[0].split("/")[1:])
    assert not any(mark in found[0] for mark in "*~\0")
    assert not found[0].startswith(("/proc/", "/usr/", "/skill/"))
    assert found[0] != "/tmp"
