"""The wiring of what takes skills in: which levels of validation they pass, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import prowess
from prowess.events.log import EventLog
from prowess.kernel.ids import IdSource
from prowess.packages.comparing import Comparer
from prowess.packages.entry import Entrance
from prowess.packages.keys import KeyService
from prowess.packages.proving import LevelCheck
from prowess.packages.revisions import RevisionService
from prowess.packages.service import InstallService
from prowess.sandbox.ports import Sandbox
from prowess.skills.catalog import CatalogService
from prowess.skills.service import SkillService
from prowess.validation.checking import check_folder
from prowess.validation.service import ValidationService
from prowess.validation.syntax import check_skill

if TYPE_CHECKING:
    from prowess.turns.definitions import SkillDefinition


@dataclass(frozen=True, slots=True)
class PackageParts:
    """The wired services."""

    installs: InstallService
    keys: KeyService
    revisions: RevisionService[SkillDefinition]
    comparer: Comparer[SkillDefinition]


def join_packages(
    log: EventLog,
    ids: IdSource,
    catalog: CatalogService[SkillDefinition],
    skills: SkillService[SkillDefinition],
    validation: ValidationService,
    sandbox: Sandbox,
) -> PackageParts:
    """Join them over the catalog."""
    entrance = Entrance(catalog, skills, prowess.__version__)
    return PackageParts(
        InstallService(log, ids, entrance, levels(validation, sandbox)),
        KeyService(log),
        RevisionService(log, catalog),
        Comparer(log, catalog),
    )


def levels(validation: ValidationService, sandbox: Sandbox) -> tuple[LevelCheck, ...]:
    """What every skill passes before it enters the catalog (V1–V3); its scripts are tried last (V2)."""
    return (
        lambda folder, _tenant: check_skill(folder),
        lambda folder, tenant: validation.check(folder, tenant=tenant),
        lambda folder, _tenant: check_folder(str(folder), "behavior", lambda: sandbox),
    )
