"""Granting and revoking: only declared codes, idempotent, each with its audit event (G2, G5)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.exc import IntegrityError

from prowess.access.model import Grant, GrantScope, GrantStatus, PermissionRequirement, Risk
from prowess.access.resources import check_resource
from prowess.access.store import active_grants, insert_grant, list_grants, revoke_grant
from prowess.errors import InvalidInput, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.clock import from_ms, to_ms
from prowess.kernel.ids import IdSource, check_id


@dataclass(frozen=True, slots=True)
class _Consent:
    """What is to be granted, checked."""

    actor: Actor
    tenant: str
    user: str
    skill: tuple[str, str]
    code: str
    agent: str | None
    resource: str | None
    expires_at: datetime | None

    @property
    def scope(self) -> GrantScope:
        return GrantScope.USER if self.agent is None else GrantScope.AGENT


class GrantService:
    """The use cases of consent."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids

    def grant(
        self,
        *,
        actor: Actor,
        tenant: str,
        user: str,
        skill: tuple[str, str],
        declared: Collection[PermissionRequirement],
        code: str,
        agent: str | None = None,
        resource: str | None = None,
        expires_at: datetime | None = None,
    ) -> Grant:
        """Consent of ``user`` to one code of one skill; for one agent where ``agent`` is given.

        An active grant with the same key is renewed: revoked and replaced where the expiry differs, returned as it is
        otherwise. Raises ``InvalidInput``: ``code_not_declared``, ``code_not_grantable`` (L4), ``expiry_in_past``,
        ``bad_instant`` for an expiry without an offset, ``bad_id``.
        """
        check_id(user, "user")
        if resource is not None:
            check_resource(resource)
        requirement = next((item for item in declared if item.code == code), None)
        if requirement is None:
            known = sorted(item.code for item in declared)
            raise InvalidInput("code_not_declared", field="code", skill=skill[0], code=code, declared=known)
        if requirement.risk is Risk.L4:
            raise InvalidInput("code_not_grantable", field="code", skill=skill[0], code=code)
        consent = _Consent(actor, tenant, user, skill, code, agent, resource, _stored_instant(expires_at))
        try:
            return self._grant(consent)
        except IntegrityError:
            return self._grant(consent)  # somebody else granted the same at the same moment; theirs is there now

    def _grant(self, consent: _Consent) -> Grant:
        with self._log.transaction(consent.tenant) as transaction:
            if consent.expires_at is not None and consent.expires_at <= transaction.now:
                raise InvalidInput("expiry_in_past", field="expires_at")
            wanted = (consent.code, consent.scope, consent.agent, consent.resource)
            for grant in active_grants(transaction.connection, consent.tenant, consent.user, consent.skill[0]):
                if (grant.code, grant.scope, grant.agent, grant.resource) != wanted:
                    continue
                current = grant.expires_at is None or transaction.now < grant.expires_at
                if grant.expires_at == consent.expires_at and current:
                    return grant
                self._revoke(transaction, consent.actor, grant)
            grant = Grant(
                id=self._ids.new("grant"),
                tenant=consent.tenant,
                user=consent.user,
                skill_id=consent.skill[0],
                skill_version=consent.skill[1],
                code=consent.code,
                scope=consent.scope,
                agent=consent.agent,
                resource=consent.resource,
                status=GrantStatus.ACTIVE,
                granted_at=from_ms(transaction.now_ms),
                granted_by=consent.actor.id,
                expires_at=consent.expires_at,
            )
            insert_grant(transaction.connection, grant)
            transaction.emit(
                "permission.granted",
                tenant=consent.tenant,
                actor=consent.actor,
                user=consent.user,
                agent=consent.agent,
                skill=consent.skill,
                target=grant.id,
                decision="allowed",
                code=consent.code,
                scope=str(consent.scope),
            )
            return grant

    def revoke(self, *, actor: Actor, tenant: str, user: str, skill: str, code: str, agent: str | None = None) -> int:
        """Take back every active grant of this code: of one agent where ``agent`` is given, else all of them.

        Returns how many. Raises ``NotFound('grant_not_found')`` where there is none.
        """
        with self._log.transaction(tenant) as transaction:
            grants = [
                grant
                for grant in active_grants(transaction.connection, tenant, user, skill)
                if grant.code == code and (agent is None or grant.agent == agent)
            ]
            count = sum(self._revoke(transaction, actor, grant) for grant in grants)
            if not count:
                raise NotFound("grant_not_found", skill=skill, code=code)
            return count

    def list(self, tenant: str, user: str, *, with_revoked: bool = False) -> list[Grant]:
        """The user's grants, newest first."""
        with self._log.database.read() as connection:
            return list_grants(connection, tenant, user, with_revoked=with_revoked)

    @staticmethod
    def _revoke(transaction: Transaction, actor: Actor, grant: Grant) -> bool:
        """Whether this call revoked it; somebody else may have been faster."""
        if not revoke_grant(transaction.connection, grant.id, transaction.now_ms):
            return False
        transaction.emit(
            "permission.revoked",
            tenant=grant.tenant,
            actor=actor,
            user=grant.user,
            agent=grant.agent,
            skill=(grant.skill_id, grant.skill_version),
            target=grant.id,
            decision="cancelled",
            code=grant.code,
            scope=str(grant.scope),
        )
        return True


def _stored_instant(expires_at: datetime | None) -> datetime | None:
    """The expiry as the table keeps it, so that granting the same again is the same."""
    if expires_at is None:
        return None
    if expires_at.tzinfo is None:
        raise InvalidInput("bad_instant", field="expires_at", value=expires_at.isoformat()[:40])
    return from_ms(to_ms(expires_at))
