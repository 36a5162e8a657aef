"""Which agent a task goes to (B17). A pure function."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from prowess.chat.model import Agent
from prowess.errors import NotFound


def route(needs: Collection[str], candidates: Iterable[Agent], *, user: str, above: Collection[str]) -> str:
    """The id of the agent for a task that needs these tags.

    Dropped: whoever ``user`` may not talk to, stands ``above`` in the chain, or is declared not to be for one of the
    needs. Of the others the one that is good at most of them, then the first by id. Raises
    ``NotFound('no_agent_for')`` where nobody is good at any.
    """
    wanted = set(needs)
    fitting = [
        (-len(wanted.intersection(agent.good_at)), agent.id)
        for agent in candidates
        if agent.usable_by(user)
        and agent.id not in above
        and wanted.isdisjoint(agent.not_for)
        and not wanted.isdisjoint(agent.good_at)
    ]
    if not fitting:
        raise NotFound("no_agent_for", needs=", ".join(sorted(wanted)))
    return min(fitting)[1]
