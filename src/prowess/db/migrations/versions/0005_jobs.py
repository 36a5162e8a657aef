"""The ledger of background jobs."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_PENDING = sa.text("status IN ('scheduled', 'retrying')")
_DUE: dict[str, Any] = {"unique": False, "sqlite_where": _PENDING, "postgresql_where": _PENDING}
_RUNNING = sa.text("status = 'running'")
_SLOT = sa.text("slot IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "skill_background_jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("chat_kind", sa.Text(), nullable=True),
        sa.Column("chat_id", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=True),
        sa.Column("skill_version", sa.Text(), nullable=True),
        sa.Column("grant_id", sa.Text(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("planned_at", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_epoch", sa.BigInteger(), nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("trigger_id", sa.Text(), nullable=True),
        sa.Column("slot", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_skill_background_jobs")),
    )
    table = "skill_background_jobs"
    op.create_index("ix_skill_background_jobs_user", table, ["tenant", "user_id", "created_at"], unique=False)
    op.create_index("ix_skill_background_jobs_due", table, ["lane", "next_attempt_at", "id"], **_DUE)
    op.create_index("ix_skill_background_jobs_next", table, ["next_attempt_at"], **_DUE)
    op.create_index(
        "ix_skill_background_jobs_leases",
        table,
        ["lease_expires_at"],
        unique=False,
        sqlite_where=_RUNNING,
        postgresql_where=_RUNNING,
    )
    op.create_index(
        "uq_skill_background_jobs_slot",
        table,
        ["trigger_id", "slot"],
        unique=True,
        sqlite_where=_SLOT,
        postgresql_where=_SLOT,
    )
