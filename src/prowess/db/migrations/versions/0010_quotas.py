"""Quotas and their counts."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "quotas",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("window", sa.Text(), nullable=False),
        sa.Column("most", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("skill_id", sa.Text(), nullable=True),
        sa.Column("trigger_id", sa.Text(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quotas")),
    )
    op.create_index("ix_quotas_tenant", "quotas", ["tenant"])
    op.create_table(
        "quota_usage",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("quota_id", sa.Text(), nullable=False),
        sa.Column("counter", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("told", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "quota_id", "counter", "started_at", name=op.f("pk_quota_usage")),
    )
