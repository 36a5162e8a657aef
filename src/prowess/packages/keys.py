"""Which keys a tenant trusts to vouch for skills, and what becomes of what they signed once they are not trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prowess.errors import Denied, InvalidInput, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.kernel.names import is_skill_name, normalise_skill_name
from prowess.packages.model import InstallState, TrustedKey
from prowess.packages.signing import key_id_of, read_public_key
from prowess.packages.store import active_installs, change_install, keys_of, put_key, revoke_key
from prowess.skills.names import SkillRef
from prowess.skills.store import StoredSkill, bump_catalog, mark_removed, set_trust, stored_skills
from prowess.skills.trust import Trust
from prowess.validation.levels import cap_for, permission_level

MAX_KEYS = 200
Refs = list[SkillRef]


class KeyService:
    """The use cases of trusted keys; all of them are the operator's (G15)."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def trust(self, *, actor: Actor, tenant: str, key: str | Path, name: str, prefix: str = "") -> TrustedKey:
        """Trust a public key, given in base64 or as a file, for the skills whose id begins with ``prefix``.

        A key that is trusted already gets the new name and prefix. What was installed before is judged when it is
        installed again. Raises ``InvalidInput`` (``bad_id``, ``bad_prefix``, ``too_many_keys``), ``SkillFileError``
        (``signing_key_malformed`` and those of reading a file), ``Denied('agent_cannot_decide')``.
        """
        _refuse_agents(actor)
        check_id(name, "name")
        scope = normalise_skill_name(prefix).rstrip("-")
        if scope and not is_skill_name(scope):
            raise InvalidInput("bad_prefix", field="prefix")
        public = read_public_key(key)
        with self._log.transaction(tenant) as transaction:
            known = keys_of(transaction.connection, tenant)
            if len(known) >= MAX_KEYS and key_id_of(public) not in {item.key_id for item in known}:
                raise InvalidInput("too_many_keys", field="key", limit=MAX_KEYS)
            trusted = TrustedKey(key_id_of(public), name, public, scope, transaction.now, None)
            put_key(transaction.connection, tenant, trusted, trusted_by=actor.id, at_ms=transaction.now_ms)
            said: dict[str, Any] = {"name": name, "prefix": scope}
            transaction.emit("key.trusted", tenant=tenant, actor=actor, target=trusted.key_id, **said)
            self._lower(transaction, actor, tenant)
            return trusted

    def revoke(self, *, actor: Actor, tenant: str, key: str) -> Refs:
        """Trust a key, named by id or by name, no more; returns the versions that went into quarantine.

        What it signed is ``community`` from the next turn on, and out of use where it asks for more than that may.
        Running sessions keep their version. Raises ``NotFound('key_not_found')``, ``Denied('agent_cannot_decide')``.
        """
        _refuse_agents(actor)
        with self._log.transaction(tenant) as transaction:
            live = [item for item in keys_of(transaction.connection, tenant) if item.revoked_at is None]
            found = [item for item in live if key in (item.key_id, item.name)]
            if not found:
                raise NotFound("key_not_found", key=key[:80])
            for item in found:
                at = transaction.now_ms
                revoke_key(transaction.connection, tenant, item.key_id, revoked_by=actor.id, at_ms=at)
                said: dict[str, Any] = {"name": item.name}
                transaction.emit("key.revoked", tenant=tenant, actor=actor, target=item.key_id, **said)
            return self._lower(transaction, actor, tenant)

    def list(self, tenant: str) -> list[TrustedKey]:
        """Every key that is or was trusted, by name."""
        with self._log.database.read() as connection:
            return keys_of(connection, tenant)

    def _lower(self, transaction: Transaction, actor: Actor, tenant: str) -> Refs:
        """Take their trust from the versions that no key vouches for any more; returns those taken out of use."""
        keys = {key.key_id: key for key in keys_of(transaction.connection, tenant)}
        quarantined: Refs = []
        lowered = False
        for stored in stored_skills(transaction.connection, tenant).readable:
            key = None if stored.signer is None else keys.get(stored.signer)
            if stored.trust is not Trust.VERIFIED or (key is not None and key.covers(stored.manifest.id)):
                continue
            lowered = True
            ref = SkillRef(stored.manifest.id, stored.manifest.version)
            set_trust(transaction.connection, tenant, ref, Trust.COMMUNITY, None, stored.signature)
            if not stored.removed and _asks_too_much(stored):
                self._take_out(transaction, actor, tenant, ref, stored)
                quarantined.append(ref)
        if lowered:
            bump_catalog(transaction.connection, tenant)
        return quarantined

    @staticmethod
    def _take_out(transaction: Transaction, actor: Actor, tenant: str, ref: SkillRef, stored: StoredSkill) -> None:
        connection, at = transaction.connection, transaction.now_ms
        mark_removed(connection, tenant, ref.id, ref.version, at)
        values = {"state": str(InstallState.QUARANTINED), "reason": "key_revoked", "changed_at": at}
        said: dict[str, Any] = {"reason": "key_revoked", "digest": stored.digest}
        for install_id in active_installs(connection, tenant, ref.id, ref.version):
            change_install(connection, tenant, install_id, InstallState.ACTIVE, values)
            transaction.emit("install.quarantined", tenant=tenant, actor=actor, target=install_id, skill=ref, **said)
        transaction.emit("skill.quarantined", tenant=tenant, actor=actor, skill=ref, **said, signer=stored.signer)


def _asks_too_much(stored: StoredSkill) -> bool:
    level, _ = permission_level(stored.manifest)
    return level > cap_for(stored.manifest.trigger_source, Trust.COMMUNITY)


def _refuse_agents(actor: Actor) -> None:
    if actor.kind == "agent":
        raise Denied("agent_cannot_decide", field="actor")
