"""Triggers, their fires, and the deliveries of webhooks."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "automation_triggers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=True),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=True),
        sa.Column("preapproved", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=True),
        sa.Column("rate_fires", sa.Integer(), nullable=False),
        sa.Column("rate_seconds", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("misfire", sa.Text(), nullable=False),
        sa.Column("misfire_bound", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("next_fire_at", sa.BigInteger(), nullable=True),
        sa.Column("anchor_at", sa.BigInteger(), nullable=False),
        sa.Column("active_since", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_by_kind", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("zone_data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_automation_triggers")),
    )
    op.create_index("ix_automation_triggers_due", "automation_triggers", ["status", "next_fire_at"])
    op.create_index("ix_automation_triggers_owner", "automation_triggers", ["tenant", "user_id"])
    op.create_table(
        "automation_fires",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("planned_at", sa.BigInteger(), nullable=True),
        sa.Column("late_ms", sa.BigInteger(), nullable=True),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("missed_from", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_automation_fires")),
    )
    op.create_index("uq_automation_fires_slot", "automation_fires", ["trigger_id", "slot"], unique=True)
    op.create_index("ix_automation_fires_at", "automation_fires", ["trigger_id", "at"])
    op.create_index("ix_automation_fires_job", "automation_fires", ["job_id"])
    op.create_table(
        "automation_deliveries",
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("delivery", sa.Text(), nullable=False),
        sa.Column("body_digest", sa.Text(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", "delivery", name=op.f("pk_automation_deliveries")),
    )
    op.create_index(
        "uq_automation_deliveries_body", "automation_deliveries", ["trigger_id", "body_digest"], unique=True
    )
    op.create_table(
        "file_watchers",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_file_watchers")),
    )
