"""The catalog snapshot and what bindings make of it (S7, T6)."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest
from tests.support.kit import interview, manual, tool

from prowess.errors import Conflict
from prowess.skills.bindings import bound_entries, is_enabled
from prowess.skills.catalog import BUILT_IN, Catalog, CatalogEntry, CatalogService
from prowess.skills.locks import SkillLock
from prowess.skills.store import Binding

Entry = CatalogEntry[Any]


def entry(id: str = "deploy", version: str = "1.0.0", **changed: Any) -> Entry:
    fields = {"source": "folder", "digest": f"{id} {version}", **changed}
    return CatalogEntry(manual(id, version=version), **fields)


def refs(entries: Any) -> list[tuple[str, str]]:
    return [(item.manifest.id, item.manifest.version) for item in entries]


# --- versions --------------------------------------------------------------------------------------------------------


def test_t6_the_default_is_the_newest_stable_version() -> None:
    versions = ["1.2.0", "1.10.0", "2.0.0-rc.1", "1.9.9"]
    for order in permutations(versions):
        catalog = Catalog([entry(version=version) for version in order])
        assert refs(catalog) == [("deploy", "1.10.0")]
        assert refs(catalog.versions("deploy")) == [
            ("deploy", version) for version in ("2.0.0-rc.1", "1.10.0", "1.9.9", "1.2.0")
        ]


def test_t6_without_a_stable_version_the_newest_prerelease_serves() -> None:
    catalog = Catalog([entry(version="1.0.0-beta.2"), entry(version="1.0.0-beta.11"), entry(version="1.0.0-alpha")])
    assert refs(catalog) == [("deploy", "1.0.0-beta.11")]


def test_t6_removed_versions_never_serve_but_can_be_found() -> None:
    removed = entry(version="2.0.0", removed=True)
    catalog = Catalog([entry(version="1.0.0"), removed])
    assert refs(catalog) == [("deploy", "1.0.0")]
    assert catalog.get("deploy", "2.0.0") is removed

    gone = Catalog([removed])
    assert len(gone) == 0
    assert gone.current("deploy") is None
    assert gone.get("deploy", "2.0.0") is removed


def test_t5_versions_that_differ_in_build_metadata_alone_serve_in_one_order() -> None:
    both = [entry(version="1.0.0+a"), entry(version="1.0.0+b")]
    assert {refs(Catalog(order))[0] for order in permutations(both)} == {("deploy", "1.0.0+b")}


def test_the_catalog_is_sorted_by_id_whatever_came_first() -> None:
    for order in permutations(["zebra", "apple", "mango"]):
        catalog = Catalog([entry(id) for id in order])
        assert refs(catalog) == [("apple", "1.0.0"), ("mango", "1.0.0"), ("zebra", "1.0.0")]
        assert len(catalog) == 3
    assert catalog.get("nothing", "1.0.0") is None
    assert catalog.get("apple", "9.9.9") is None
    assert catalog.versions("nothing") == ()


# --- what cannot stand beside each other -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (entry(), "skill_exists"),
        (entry(digest="else"), "skill_digest_differs"),
        (entry(digest="else", removed=True), "skill_digest_differs"),
        (entry(version="1.1.0", source=BUILT_IN), "skill_name_taken"),
        (CatalogEntry(interview("deploy", version="1.1.0"), "folder", "x"), "skill_kind_differs"),
    ],
    ids=["same", "changed", "changed-since-removed", "built-in", "kind"],
)
def test_s7_c08_what_cannot_stand_beside_each_other_is_refused_in_either_order(other: Entry, code: str) -> None:
    for order in ([entry(), other], [other, entry()]):
        with pytest.raises(Conflict) as refused:
            Catalog(order)
        assert refused.value.code == code
        assert {refused.value.detail["source"], refused.value.detail["other"]} == {"folder", other.source}


def test_x1_a_duplicate_definition_is_refused() -> None:
    with pytest.raises(Conflict) as refused:
        CatalogService([tool("search"), tool("search")], lambda stored: manual(stored.manifest.id))
    assert refused.value.code == "skill_exists"
    with pytest.raises(Conflict) as refused:
        CatalogService([tool("search"), tool("search", keywords=("other",))], lambda stored: manual("x"))
    assert refused.value.code == "skill_digest_differs"
    with pytest.raises(Conflict) as refused:
        CatalogService([tool("search"), interview("search", version="2.0.0")], lambda stored: manual("x"))
    assert refused.value.code == "skill_kind_differs"


def test_two_built_in_versions_stand_beside_each_other() -> None:
    service = CatalogService([interview(version="1.0.0"), interview(version="1.1.0")], lambda stored: manual("x"))
    assert refs(service.built_in.versions("interview")) == [("interview", "1.1.0"), ("interview", "1.0.0")]
    assert [item.source for item in service.built_in] == [BUILT_IN]


def test_s7_the_digest_of_a_definition_covers_manifest_and_body() -> None:
    def digest(**changed: Any) -> str:
        service: CatalogService[Any] = CatalogService([manual("deploy", **changed)], lambda stored: manual("x"))
        return next(iter(service.built_in)).digest

    assert digest() == digest()
    assert len({digest(), digest(body="else"), digest(description="else"), digest(keywords=("a b",))}) == 4


# --- bindings (T6) ---------------------------------------------------------------------------------------------------

CATALOG = Catalog(
    [
        entry("apple"),
        entry("deploy", "1.0.0"),
        entry("deploy", "2.0.0"),
        entry("deploy", "3.0.0-rc.1"),
        entry("deploy", "1.5.0", removed=True),
    ]
)
ALL = [("apple", "1.0.0"), ("deploy", "2.0.0")]


def by_user(skill: str = "deploy", *, enabled: bool = True, pin: str | None = None) -> Binding:
    return Binding("user", "u1", skill, enabled, pin)


def for_agent(skill: str = "deploy", *, enabled: bool = True, pin: str | None = None) -> Binding:
    return Binding("agent", "mira", skill, enabled, pin)


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        ([], ALL),
        ([by_user()], ALL),
        ([by_user(enabled=False)], [("apple", "1.0.0")]),
        ([for_agent(enabled=False)], [("apple", "1.0.0")]),
        ([by_user(enabled=False), for_agent(enabled=True)], [("apple", "1.0.0")]),
        ([by_user(enabled=True), for_agent(enabled=False)], [("apple", "1.0.0")]),
        ([by_user(enabled=False), by_user("apple", enabled=False)], []),
        ([by_user(pin="1.0.0")], [("apple", "1.0.0"), ("deploy", "1.0.0")]),
        ([for_agent(pin="1.0.0")], [("apple", "1.0.0"), ("deploy", "1.0.0")]),
        ([by_user(pin="3.0.0-rc.1"), for_agent(pin="1.0.0")], [("apple", "1.0.0"), ("deploy", "3.0.0-rc.1")]),
        ([by_user(pin="1.0.0", enabled=False)], [("apple", "1.0.0")]),
        ([by_user(pin="1.5.0")], [("apple", "1.0.0")]),
        ([by_user(pin="9.9.9")], [("apple", "1.0.0")]),
        ([by_user("ghost", pin="1.0.0"), by_user("ghost", enabled=False)], ALL),
    ],
)
def test_t6_candidates(bindings: list[Binding], expected: list[tuple[str, str]]) -> None:
    for order in permutations(bindings):
        assert refs(bound_entries(CATALOG, order)) == expected


def test_t6_one_no_is_enough() -> None:
    assert is_enabled("deploy", [])
    assert is_enabled("deploy", [by_user(), for_agent()])
    assert is_enabled("deploy", [by_user("apple", enabled=False)])
    assert not is_enabled("deploy", [by_user(), for_agent(enabled=False)])
    assert not is_enabled("deploy", [by_user(enabled=False), for_agent()])


def test_u11_a_lock_chooses_and_hides_no_version_from_a_running_session() -> None:
    entries = [entry("x", version) for version in ("1.0.0", "1.1.0")]
    lock = SkillLock("x", "1.0.0", entries[0].digest, "operator", datetime(2026, 1, 1, tzinfo=UTC))
    catalog = Catalog(entries, (), {"x": lock})
    assert catalog.current("x") is entries[0]
    assert catalog.get("x", "1.1.0") is entries[1]
