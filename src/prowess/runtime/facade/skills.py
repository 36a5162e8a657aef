"""The catalog and who has which skill enabled (S6, T6)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal

from prowess.errors import InvalidInput, NotFound
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.kernel.text import check_text
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.runtime.why import WhyNot, why_not
from prowess.skills.catalog import CatalogEntry, is_installed
from prowess.skills.manifest import ChatScope
from prowess.skills.service import Added, find_entry
from prowess.skills.skill_writer import Form
from prowess.skills.staging.service import Staged
from prowess.skills.store import Binding
from prowess.turns.definitions import SkillDefinition, ToolSkill
from prowess.turns.meta import skill_folder
from prowess.turns.plan import TurnPlan
from prowess.turns.questions import Call
from prowess.turns.request import TurnRequest
from prowess.turns.runs import SkillUsage, skill_usage
from prowess.turns.view import Entry
from prowess.validation.report import Report


class Skills(Facade):
    """The catalog and who has which skill enabled (S6, T6)."""

    def skills(self, *, tenant: str = DEFAULT_TENANT) -> list[CatalogEntry[SkillDefinition]]:
        """The current version of every skill in the catalog, by id."""
        return list(self._parts.skills.catalog(tenant))

    def skill(
        self, skill: str, version: str | None = None, *, tenant: str = DEFAULT_TENANT
    ) -> CatalogEntry[SkillDefinition]:
        """One skill, at its current version where none is given. Raises ``NotFound``."""
        return find_entry(self._parts.skills.catalog(tenant), skill, version)

    def skill_versions(self, skill: str, *, tenant: str = DEFAULT_TENANT) -> list[CatalogEntry[SkillDefinition]]:
        """Every version of a skill that is in use, newest first. Raises ``NotFound('skill_not_found')``."""
        catalog = self._parts.skills.catalog(tenant)
        found = find_entry(catalog, skill)
        return [entry for entry in catalog.versions(found.manifest.id) if not entry.removed]

    def candidates(
        self, *, user: str | None = None, agent: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> list[CatalogEntry[SkillDefinition]]:
        """The skills that may serve this user with this agent: granted, designed for, enabled."""
        return list(self._view(tenant, user, agent).candidates)

    def skill_for(
        self, skill: str, *, user: str, agent: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> CatalogEntry[SkillDefinition]:
        """One skill as this user may see it, enabled or not.

        Raises ``NotFound('skill_not_found')`` alike for one that does not exist and one that is not granted (G8).
        """
        return self._visible(tenant, user, agent, skill)

    def why_not(
        self,
        *,
        user: str,
        agent: str,
        text: str,
        scope: ChatScope | str = ChatScope.SINGLE,
        tenant: str = DEFAULT_TENANT,
    ) -> list[WhyNot]:
        """Of every skill in the catalog, whether it would serve ``text``, and if not why not (U12). For operators.

        Raises ``InvalidInput`` (``text_empty``, ``text_too_long``, ``control_character``, ``bad_scope``).
        """
        if scope not in tuple(ChatScope):
            raise InvalidInput("bad_scope", field="scope", known=[str(known) for known in ChatScope])
        view = self._view(tenant, user, agent)
        request = TurnRequest(tenant, user, agent, "?", "why", "why")

        def over_budget(definition: SkillDefinition) -> bool:
            if not isinstance(definition, ToolSkill):
                return False
            with self._parts.database.read() as connection:
                call = Call(request, definition, 0, "en", None, view)
                return self._parts.budgets.over_budget(connection, call) is not None

        catalog = self._parts.skills.catalog(tenant)
        return why_not(check_text(text, "text"), ChatScope(scope), view, catalog, over_budget)

    def skill_usage(self, *, since: datetime | None = None, tenant: str = DEFAULT_TENANT) -> list[SkillUsage]:
        """Which skills are used, by whom, with what success (U12), most used first. For operators."""
        with self._parts.database.read() as connection:
            return skill_usage(connection, tenant, since)

    def add_skill(self, path: str | Path, *, tenant: str = DEFAULT_TENANT) -> Added:
        """Take a folder of one's own into the catalog, through the checks. See ``install_skill`` for any other.

        Raises ``SkillFileError`` for what cannot be read and for the first fault that a check found, ``Conflict``
        where it does not fit the catalog, and ``Conflict('install_waits')`` where a person has to approve what is new.
        """
        return self._parts.packages.installs.add(actor=OPERATOR, tenant=tenant, path=path)

    def check_skill(self, path: str | Path, *, trust: str | None = None, tenant: str = DEFAULT_TENANT) -> Report:
        """What level 3 says of a skill folder, kept for the same bytes and rules (V3, V4, C72).

        ``trust``: where it comes from, ``built_in``, ``verified``, ``community`` or ``generated``; it caps what may be
        asked for (V6). Raises ``InvalidInput('advisories_invalid')``.
        """
        return self._parts.validation.check(path, tenant=tenant, trust=trust)

    def remove_skill(self, skill: str, version: str | None = None, *, tenant: str = DEFAULT_TENANT) -> int:
        """Take one or all versions out of use. Raises ``NotFound``, ``InvalidInput('skill_built_in')``."""
        return self._parts.skills.remove(actor=OPERATOR, tenant=tenant, skill=skill, version=version)

    def roll_out_skill(self, skill: str, version: str, percent: int, *, tenant: str = DEFAULT_TENANT) -> None:
        """Let a version serve so many percent of the users, the others the version before; 0 makes it a draft.

        The same user is always on the same side. Raises ``NotFound``, ``InvalidInput`` (``bad_percent``,
        ``skill_built_in``).
        """
        self._parts.skills.roll_out(actor=OPERATOR, tenant=tenant, skill=skill, version=version, percent=percent)

    def export_skill(
        self,
        skill: str,
        destination: str | Path,
        *,
        version: str | None = None,
        form: Form | Literal["exact"] = "standard",
        tenant: str = DEFAULT_TENANT,
    ) -> Path:
        """Write a skill as a folder below ``destination``; ``form`` as in ``docs/skills.md``.

        ``exact``: byte by byte as it was installed, so that its digest is the same and a later ``merge_skills`` knows
        what an edit of it comes from.
        """
        if form == "exact":
            return self._parts.packages.comparer.export_exact(tenant, skill, version, Path(destination))
        return self._parts.skills.export(
            tenant=tenant, skill=skill, version=version, destination=Path(destination), form=form
        )

    def stage(self, plan: TurnPlan, workspace: str | Path, *, skills: Iterable[str] | None = None) -> Staged:
        """Lay out the files of the skills that exist for this turn, below ``workspace``, for it alone (G12).

        ``skills`` null: all of them that have files; one that is not granted is not there, like one that does not
        exist. Call ``unstage`` when the turn is over. Raises ``NotFound('skill_not_found')``, ``InvalidInput``
        (``workspace_missing``, ``staged_too_large``), ``Conflict('workspace_unsafe')``.
        """
        tenant = plan.request.tenant
        if skills is None:
            wanted = [entry for entry in plan.view.candidates if is_installed(entry.source)]
        else:
            wanted = [self._seen(plan, name) for name in dict.fromkeys(skills)]
        with self._parts.database.read() as connection:
            folders = [skill_folder(connection, tenant, entry) for entry in wanted]
        return self._parts.staging.stage(tenant, Path(workspace), folders)

    def unstage(self, staged: Staged) -> None:
        """The turn is over: its files go."""
        self._parts.staging.release(staged)

    def renew_staged(self, staged: Staged) -> None:
        """Keep the files of a turn that takes longer than 15 minutes. Raises ``Conflict('staged_over')``."""
        self._parts.staging.renew(staged)

    def clean_workspace(self, workspace: str | Path) -> int:
        """Take away what turns that are over left in a workspace; returns how many of them."""
        return self._parts.staging.clean(Path(workspace))

    @staticmethod
    def _seen(plan: TurnPlan, name: str) -> Entry:
        entry = plan.view.entry(name)
        if entry is None:
            raise NotFound("skill_not_found", skill=name[:80])
        return entry

    def bind_skill(
        self,
        skill: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        enabled: bool | None = None,
        pin: str | None = None,
        unpin: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> Binding:
        """Enable, disable, pin or unpin a skill for a user or for an agent; exactly one of them.

        Raises ``NotFound`` (``skill_not_found``, ``version_not_found``), ``InvalidInput('target_missing')``.
        """
        if (user is None) == (agent is None):
            raise InvalidInput("target_missing", field="user")
        if user is not None:
            self._visible(tenant, user, None, skill)
            return self._parts.skills.bind(
                actor=Actor("user", user),
                tenant=tenant,
                target=("user", check_id(user, "user")),
                skill=skill,
                enabled=enabled,
                pin=pin,
                unpin=unpin,
            )
        return self._parts.skills.bind(
            actor=OPERATOR,
            tenant=tenant,
            target=("agent", check_id(agent, "agent")),
            skill=skill,
            enabled=enabled,
            pin=pin,
            unpin=unpin,
        )
