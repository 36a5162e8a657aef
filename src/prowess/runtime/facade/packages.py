"""Taking skills in from outside: install, approve, keys, locks, rollback, diff and merge (U11, ruling 12.8)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prowess.errors import InvalidInput
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.packages.comparing import Merge
from prowess.packages.deciding import Review
from prowess.packages.model import Install, InstallState, TrustedKey
from prowess.packages.revisions import LockedSkill, read_lock_file
from prowess.packages.service import REVIEWS
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.skills.locks import SkillLock
from prowess.skills.names import SkillRef

MAX_LISTED = 1_000


class Packages(Facade):
    """Skills from outside, and which revision of them serves. All of it is the operator's."""

    def install_skill(
        self,
        path: str | Path,
        *,
        by: str | None = None,
        review: Review = "auto",
        digest: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Install:
        """Take in a skill from a folder or an archive; its ``state`` says whether it serves.

        It goes through quarantine and every level of validation. ``active``: it serves; ``awaiting_approval``: a person
        has to say yes to what ``changes`` names; ``rejected``: ``report`` says why, with file and line. ``review``
        ``"always"`` asks a person whatever it is; ``digest`` is the content that it must have; ``by`` is the person who
        installs. Raises ``SkillFileError`` for what cannot be unpacked or read, ``LimitExceeded('installs_waiting')``,
        ``InvalidInput('bad_choice')``.
        """
        if review not in REVIEWS:
            raise InvalidInput("bad_choice", field="review", known=list(REVIEWS))
        return self._parts.packages.installs.install(
            actor=_operator(by), tenant=tenant, path=path, review=review, expected=digest
        )

    def install_locked(
        self, file: str | Path, paths: Iterable[str | Path] = (), *, tenant: str = DEFAULT_TENANT
    ) -> list[Install]:
        """Take in the skills of a lock file, each only with the digest that it names there.

        ``paths`` are folders or archives whose names begin with the skills' ids; without any, the sources that the file
        names. Raises ``SkillFileError`` (``lock_file_malformed``, ``lock_file_unlisted``), and as ``install_skill``.
        """
        locked = read_lock_file(Path(file))
        given = [Path(path) for path in paths]
        pairs = [(item, Path(item.source)) for item in locked] if not given else _paired(locked, given, Path(file))
        return [self.install_skill(path, digest=item.digest, tenant=tenant) for item, path in pairs]

    def installs(
        self, *, states: Iterable[InstallState | str] | None = None, limit: int = 100, tenant: str = DEFAULT_TENANT
    ) -> list[Install]:
        """What was taken in, the newest first. Raises ``InvalidInput`` (``bad_choice``, ``bad_limit``)."""
        known = tuple(InstallState)
        wanted = None if states is None else [str(state) for state in states]
        if wanted is not None and not set(wanted) <= set(known):
            raise InvalidInput("bad_choice", field="states", known=[str(state) for state in known])
        if not 1 <= limit <= MAX_LISTED:
            raise InvalidInput("bad_limit", field="limit", limit=MAX_LISTED)
        return self._parts.packages.installs.list(tenant, wanted, limit)

    def install(self, install: str, *, tenant: str = DEFAULT_TENANT) -> Install:
        """One of them. Raises ``NotFound('install_not_found')``."""
        return self._parts.packages.installs.get(tenant, install)

    def check_install(self, install: str, *, tenant: str = DEFAULT_TENANT) -> Install:
        """Check what waits once more. Raises ``NotFound('install_not_found')``, ``Conflict('install_decided')``."""
        return self._parts.packages.installs.check(actor=OPERATOR, tenant=tenant, install_id=install)

    def approve_install(
        self, install: str, *, by: str | None = None, digest: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> Install:
        """Say yes to what waits, once, and to nothing else; ``by``: the person (default: the operator).

        Raises ``NotFound('install_not_found')``, ``Denied`` (``not_an_approver``, ``approver_is_installer``),
        ``Conflict`` (``install_decided``, ``install_digest``, ``install_changed``).
        """
        return self._parts.packages.installs.approve(
            actor=_operator(by), tenant=tenant, install_id=install, digest=digest
        )

    def reject_install(self, install: str, *, by: str | None = None, tenant: str = DEFAULT_TENANT) -> Install:
        """Turn down what waits. Raises as ``approve_install``."""
        return self._parts.packages.installs.reject(actor=_operator(by), tenant=tenant, install_id=install)

    def trust_key(self, key: str | Path, *, name: str, prefix: str = "", tenant: str = DEFAULT_TENANT) -> TrustedKey:
        """Trust a public key (base64, or a file) for the skills whose id begins with ``prefix``.

        Raises ``InvalidInput`` (``bad_id``, ``bad_prefix``, ``too_many_keys``), ``SkillFileError``.
        """
        return self._parts.packages.keys.trust(actor=OPERATOR, tenant=tenant, key=key, name=name, prefix=prefix)

    def revoke_key(self, key: str, *, tenant: str = DEFAULT_TENANT) -> list[SkillRef]:
        """Trust a key no more; returns what went into quarantine. Raises ``NotFound('key_not_found')``."""
        return self._parts.packages.keys.revoke(actor=OPERATOR, tenant=tenant, key=key)

    def trusted_keys(self, *, tenant: str = DEFAULT_TENANT) -> list[TrustedKey]:
        """Every key that is or was trusted."""
        return self._parts.packages.keys.list(tenant)

    def rollback_skill(self, skill: str, to: str | None = None, *, tenant: str = DEFAULT_TENANT) -> SkillLock:
        """Go back to the version before, or to a version or digest, for everybody; running sessions keep theirs.

        Raises ``NotFound`` (``skill_not_found``, ``version_not_found``), ``Conflict('nothing_to_roll_back')``,
        ``InvalidInput`` (``skill_built_in``, ``digest_ambiguous``).
        """
        return self._parts.packages.revisions.rollback(actor=OPERATOR, tenant=tenant, skill=skill, to=to)

    def lock_skill(self, skill: str, to: str | None = None, *, tenant: str = DEFAULT_TENANT) -> SkillLock:
        """Let one version serve everybody until it is unlocked. Raises as ``rollback_skill``."""
        return self._parts.packages.revisions.lock(actor=OPERATOR, tenant=tenant, skill=skill, to=to)

    def unlock_skill(self, skill: str, *, tenant: str = DEFAULT_TENANT) -> bool:
        """Follow the newest stable version again; false where it was not locked."""
        return self._parts.packages.revisions.unlock(actor=OPERATOR, tenant=tenant, skill=skill)

    def skill_locks(self, *, tenant: str = DEFAULT_TENANT) -> list[SkillLock]:
        """Every lock, by skill."""
        return self._parts.packages.revisions.locks(tenant)

    def lock_file(self, *, tenant: str = DEFAULT_TENANT) -> dict[str, Any]:
        """What serves now: ``{"format", "skills": [{"id", "version", "digest", "source", "signer"}]}``."""
        return self._parts.packages.revisions.lock_file(tenant)

    def diff_skills(self, before: str, after: str, *, tenant: str = DEFAULT_TENANT) -> dict[str, Any]:
        """How two versions differ; each is a folder, an archive, ``skill`` or ``skill@version``."""
        return self._parts.packages.comparer.diff(tenant, before, after)

    def merge_skills(
        self,
        mine: str,
        theirs: str,
        destination: str | Path,
        *,
        base: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Merge:
        """Put a local edit and an upstream version together in a new folder; conflicts are shown.

        Raises ``NotFound('merge_base_missing')``, ``Conflict('folder_exists')``, ``InvalidInput('merge_other_skill')``,
        ``SkillFileError``.
        """
        return self._parts.packages.comparer.merge(tenant, mine, theirs, Path(destination), base)


def _operator(by: str | None) -> Actor:
    return OPERATOR if by is None else Actor("user", check_id(by, "by"))


def _paired(locked: list[LockedSkill], given: list[Path], file: Path) -> list[tuple[LockedSkill, Path]]:
    """Each path with its entry, the longest id that its name begins with. Raises ``SkillFileError``."""
    from prowess.errors import SkillFileError

    pairs = []
    for path in given:
        fitting = [
            item for item in locked if path.name == item.id or path.name.startswith((f"{item.id}.", f"{item.id}-"))
        ]
        if not fitting:
            raise SkillFileError("lock_file_unlisted", file=str(file), line=1, name=path.name[:80])
        pairs.append((max(fitting, key=lambda item: len(item.id)), path))
    return pairs
