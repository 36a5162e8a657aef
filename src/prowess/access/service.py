"""Granting and revoking: only declared codes, idempotent, each with its audit event (G2, G5)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from prowess.access.model import Grant, GrantScope, GrantStatus, PermissionRequirement, Risk
from prowess.access.store import active_grants, insert_grant, list_grants, revoke_grant
from prowess.errors import InvalidInput, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.ids import IdSource, check_id


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
        otherwise. Raises ``InvalidInput``: ``code_not_declared``, ``code_not_grantable`` (L4), ``expiry_in_past``.
        """
        check_id(user, "user")
        requirement = next((item for item in declared if item.code == code), None)
        if requirement is None:
            known = sorted(item.code for item in declared)
            raise InvalidInput("code_not_declared", field="code", skill=skill[0], code=code, declared=known)
        if requirement.risk is Risk.L4:
            raise InvalidInput("code_not_grantable", field="code", skill=skill[0], code=code)
        with self._log.transaction() as transaction:
            if expires_at is not None and expires_at <= transaction.now:
                raise InvalidInput("expiry_in_past", field="expires_at")
            scope = GrantScope.USER if agent is None else GrantScope.AGENT
            wanted = (code, scope, agent, resource)
            for grant in active_grants(transaction.connection, tenant, user, skill[0]):
                if (grant.code, grant.scope, grant.agent, grant.resource) != wanted:
                    continue
                current = grant.expires_at is None or transaction.now < grant.expires_at
                if grant.expires_at == expires_at and current:
                    return grant
                self._revoke(transaction, actor, grant)
            grant = Grant(
                id=self._ids.new("grant"),
                tenant=tenant,
                user=user,
                skill_id=skill[0],
                skill_version=skill[1],
                code=code,
                scope=scope,
                agent=agent,
                resource=resource,
                status=GrantStatus.ACTIVE,
                granted_at=transaction.now,
                granted_by=actor.id,
                expires_at=expires_at,
            )
            insert_grant(transaction.connection, grant)
            transaction.emit(
                "permission.granted",
                tenant=tenant,
                actor=actor,
                user=user,
                agent=agent,
                skill=skill,
                target=grant.id,
                decision="allowed",
                code=code,
                scope=str(scope),
            )
            return grant

    def revoke(self, *, actor: Actor, tenant: str, user: str, skill: str, code: str, agent: str | None = None) -> int:
        """Take back every active grant of this code: of one agent where ``agent`` is given, else all of them.

        Returns how many. Raises ``NotFound('grant_not_found')`` where there is none.
        """
        with self._log.transaction() as transaction:
            grants = [
                grant
                for grant in active_grants(transaction.connection, tenant, user, skill)
                if grant.code == code and (agent is None or grant.agent == agent)
            ]
            if not grants:
                raise NotFound("grant_not_found", skill=skill, code=code)
            for grant in grants:
                self._revoke(transaction, actor, grant)
            return len(grants)

    def list(self, tenant: str, user: str, *, with_revoked: bool = False) -> list[Grant]:
        """The user's grants, newest first."""
        with self._log.database.read() as connection:
            return list_grants(connection, tenant, user, with_revoked=with_revoked)

    @staticmethod
    def _revoke(transaction: Transaction, actor: Actor, grant: Grant) -> None:
        revoke_grant(transaction.connection, grant.id, transaction.now_ms)
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
