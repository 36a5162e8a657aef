"""Which jobs are due, fairly: a lane is a tenant or one of its triggers; none waits for another's backlog (B10)."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, text

from prowess.automation.jobs.store import PENDING_ROWS

Due = tuple[str, int, str]
"""(job id, due in ms, lane)"""

# The lanes that have anything pending, one step through the index for each; then the oldest of each lane.
_LANES = f"""
WITH RECURSIVE lanes(lane) AS (
    SELECT min(lane) FROM skill_background_jobs WHERE {PENDING_ROWS}
    UNION ALL
    SELECT (SELECT min(j.lane) FROM skill_background_jobs j WHERE j.{PENDING_ROWS} AND j.lane > lanes.lane)
    FROM lanes WHERE lanes.lane IS NOT NULL
)
"""
_DUE_OF_LANES = {
    "sqlite": text(
        _LANES
        + f"""
SELECT j.id, j.next_attempt_at, j.lane FROM lanes
JOIN skill_background_jobs j ON j.id IN (
    SELECT d.id FROM skill_background_jobs d
    WHERE d.lane = lanes.lane AND d.{PENDING_ROWS} AND d.next_attempt_at <= :until
    ORDER BY d.next_attempt_at, d.id LIMIT :count)
WHERE lanes.lane IS NOT NULL
"""
    ),
    "postgresql": text(
        _LANES
        + f"""
SELECT j.id, j.next_attempt_at, j.lane FROM lanes CROSS JOIN LATERAL (
    SELECT d.id, d.next_attempt_at, d.lane FROM skill_background_jobs d
    WHERE d.lane = lanes.lane AND d.{PENDING_ROWS} AND d.next_attempt_at <= :until
    ORDER BY d.next_attempt_at, d.id LIMIT :count) j
WHERE lanes.lane IS NOT NULL
"""
    ),
}


def due_of_lanes(connection: Connection, until_ms: int, count: int) -> list[Due]:
    """(id, due in ms, lane): of every lane the ``count`` oldest that are due by then, in no order."""
    rows = connection.execute(_DUE_OF_LANES[connection.dialect.name], {"until": until_ms, "count": count}).fetchall()
    return [(job_id, due, lane) for job_id, due, lane in rows]


def fair(found: Iterable[Due], limit: int) -> list[Due]:
    """At most ``limit``, taken from the lanes in turn, the lane that has waited longest first; then by time."""
    lanes: dict[str, list[Due]] = {}
    for item in sorted(found, key=lambda item: (item[1], item[0])):
        lanes.setdefault(item[2], []).append(item)
    taken: list[Due] = []
    depth = 0
    while len(taken) < limit and any(len(lane) > depth for lane in lanes.values()):
        taken += [lane[depth] for lane in lanes.values() if len(lane) > depth]
        depth += 1
    return sorted(taken[:limit], key=lambda item: (item[1], item[0]))
