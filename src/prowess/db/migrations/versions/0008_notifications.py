"""Notifications: inboxes, webhooks and their deliveries, and the denials that bursts are counted by."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("about_user_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("skill_id", sa.Text(), nullable=True),
        sa.Column("chat_kind", sa.Text(), nullable=True),
        sa.Column("chat_id", sa.Text(), nullable=True),
        sa.Column("approval_id", sa.Text(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("trigger_id", sa.Text(), nullable=True),
        sa.Column("hook_id", sa.Text(), nullable=True),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("read_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
        sa.UniqueConstraint(
            "tenant",
            "user_id",
            "event_seq",
            "kind",
            name=op.f("uq_notifications_tenant_user_id_event_seq_kind"),
        ),
    )
    op.create_index("ix_notifications_inbox", "notifications", ["tenant", "user_id", "created_at"])
    op.create_index("ix_notifications_read", "notifications", ["read_at"])
    op.create_table(
        "notification_hooks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("kinds", sa.Text(), nullable=True),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_hooks")),
    )
    op.create_index("ix_notification_hooks_reader", "notification_hooks", ["tenant", "user_id"])
    op.create_table(
        "notification_deliveries",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("notification_id", sa.Text(), nullable=False),
        sa.Column("hook_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_notification_deliveries")),
    )
    op.create_table(
        "denial_bursts",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("recent", sa.Text(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "user_id", name=op.f("pk_denial_bursts")),
    )
