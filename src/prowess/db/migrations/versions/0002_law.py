"""Skill filters of agents, roles, equipped tool groups, standing approvals, staged calls and rollouts."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("agents") as agents:
        agents.add_column(sa.Column("skill_filter", sa.Text(), nullable=True))
    with op.batch_alter_table("skill_versions") as versions:
        versions.add_column(sa.Column("rollout", sa.Integer(), nullable=True))
    op.create_table(
        "roles",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("everything", sa.Boolean(), nullable=False),
        sa.Column("capabilities", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name=op.f("pk_roles")),
    )
    op.create_table(
        "role_members",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("assigned_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user_id", "role", name=op.f("pk_role_members")),
    )
    op.create_index("ix_role_members_role", "role_members", ["tenant", "role"], unique=False)
    op.create_table(
        "equipped_groups",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("chat_kind", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("groups", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "tenant", "user_id", "agent_id", "chat_kind", "chat_id", name=op.f("pk_equipped_groups")
        ),
    )
    op.create_table(
        "standing_approvals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_standing_approvals")),
    )
    op.create_index("ix_standing_approvals_user", "standing_approvals", ["tenant", "user_id", "skill_id"], unique=False)
    op.create_table(
        "staged_calls",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_staged_calls")),
    )
    op.create_index("ix_staged_calls_workspace", "staged_calls", ["workspace"], unique=False)
