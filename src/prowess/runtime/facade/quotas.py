"""Budgets: set, removed, looked at (U9). For operators."""

from __future__ import annotations

from prowess.access.quotas.model import Quota, Resource, Usage, Window
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT


class Quotas(Facade):
    """Budgets of tenants, users, agents and skills (U9)."""

    def set_quota(
        self,
        resource: Resource | str,
        limit: int,
        *,
        window: Window | str = Window.DAY,
        user: str | None = None,
        agent: str | None = None,
        skill: str | None = None,
        trigger: str | None = None,
        job: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Quota:
        """Limit ``calls``, ``wall_ms``, ``sandbox_ms``, ``model_tokens`` or ``cost_micros`` in a window of UTC.

        ``user``, ``agent``, ``skill``, ``trigger`` (an automation), ``job``: an id, ``"*"`` for each one by itself,
        null for all together. One that stands already for the same ones and window gets the new limit; its counts
        stay. Raises ``InvalidInput`` (``bad_choice``, ``bad_quota``, ``bad_id``), ``LimitExceeded('too_many_quotas')``.
        """
        return self._parts.quotas.set(
            actor=OPERATOR,
            tenant=tenant,
            resource=resource,
            window=window,
            limit=limit,
            user=user,
            agent=agent,
            skill=skill,
            trigger=trigger,
            job=job,
        )

    def remove_quota(self, quota_id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Take a quota and its counts away. Raises ``NotFound('quota_not_found')``."""
        self._parts.quotas.remove(actor=OPERATOR, tenant=tenant, quota_id=quota_id)

    def quotas(self, *, tenant: str = DEFAULT_TENANT) -> list[Quota]:
        """Every quota of the tenant, by id."""
        return self._parts.quotas.list(tenant)

    def quota_usage(self, *, tenant: str = DEFAULT_TENANT) -> list[Usage]:
        """What is used and reserved in the windows of this moment."""
        return self._parts.quotas.usage(tenant)
