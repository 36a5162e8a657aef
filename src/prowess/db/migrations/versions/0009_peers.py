"""Handing over and stopping: tasks, locks of destructive tools, changes within a task, stopped turns, agents' tags."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("agents", sa.Column("good_at", sa.Text(), nullable=True))
    op.add_column("agents", sa.Column("not_for", sa.Text(), nullable=True))
    places = [f"{place}_{part}" for place in ("parent", "child", "root") for part in _PARTS]
    op.create_table(
        "delegations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in places),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("needs", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delegations")),
    )
    op.create_index("ix_delegations_parent", "delegations", ["tenant", "parent_message_id"])
    op.create_index("ix_delegations_child", "delegations", ["tenant", "child_message_id"])
    op.create_index("ix_delegations_root", "delegations", ["tenant", "root_message_id"])
    op.create_index("ix_delegations_user", "delegations", ["tenant", "user_id", "created_at"])
    op.create_table(
        "tool_locks",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("chat_kind", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "tool", name=op.f("pk_tool_locks")),
    )
    root = [f"root_{part}" for part in _PARTS]
    op.create_table(
        "task_changes",
        sa.Column("tenant", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in root),
        sa.Column("resource", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", *root, "resource", name=op.f("pk_task_changes")),
    )
    op.create_table(
        "stopped_turns",
        sa.Column("tenant", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _PARTS),
        sa.Column("stopped_by", sa.Text(), nullable=False),
        sa.Column("stopped_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", *_PARTS, name=op.f("pk_stopped_turns")),
    )


_PARTS = ("chat_kind", "chat_id", "message_id", "agent_id")
