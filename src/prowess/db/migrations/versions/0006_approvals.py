"""Approvals and their answers, approvers, opened risks, suspended turns."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _instant(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def upgrade() -> None:
    _approvals()
    op.create_table(
        "approval_answers",
        _text("approval_id"),
        sa.Column("seat", sa.Integer(), autoincrement=False, nullable=False),
        _text("answered_by"),
        sa.Column("approved", sa.Boolean(), nullable=False),
        _instant("at"),
        sa.PrimaryKeyConstraint("approval_id", "seat", name=op.f("pk_approval_answers")),
    )
    op.create_index("uq_approval_answers_person", "approval_answers", ["approval_id", "answered_by"], unique=True)
    op.create_table(
        "approvers",
        *(_text(name) for name in ("tenant", "user_id", "code")),
        _instant("added_at"),
        sa.PrimaryKeyConstraint("tenant", "user_id", "code", name=op.f("pk_approvers")),
    )
    op.create_table(
        "opened_risks",
        *(_text(name) for name in ("tenant", "code")),
        _instant("opened_at"),
        sa.PrimaryKeyConstraint("tenant", "code", name=op.f("pk_opened_risks")),
    )
    _suspended_turns()
    op.create_index(
        "ix_skill_tool_executions_turn", "skill_tool_executions", ["tenant", "scope_id", "message_id"], unique=False
    )


def _approvals() -> None:
    op.create_table(
        "approvals",
        *(_text(name) for name in ("id", "call_key", "call_id", "tenant", "user_id", "agent_id", "chat_kind")),
        *(_text(name) for name in ("chat_id", "message_id")),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        *(_text(name) for name in ("tool", "skill_id", "skill_version", "verb")),
        _text("resource", nullable=True),
        _text("codes"),
        _text("input_digest"),
        _text("arguments", nullable=True),
        _text("rule", nullable=True),
        _text("risk"),
        sa.Column("destructive", sa.Boolean(), nullable=False),
        _text("origin"),
        _text("run_id", nullable=True),
        _text("language"),
        _text("above"),
        sa.Column("seats", sa.Integer(), nullable=False),
        _text("status"),
        _instant("created_at"),
        _instant("expires_at"),
        _instant("used_at", nullable=True),
        _text("outcome", nullable=True),
        _text("result", nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
    )
    turn = ["tenant", "chat_kind", "chat_id", "message_id", "agent_id"]
    op.create_index("ix_approvals_turn", "approvals", turn, unique=False)
    op.create_index("ix_approvals_user", "approvals", ["tenant", "user_id", "created_at"], unique=False)
    is_open = sa.text("status = 'pending' OR status = 'approved' AND used_at IS NULL")
    op.create_index(
        "uq_approvals_open", "approvals", ["call_key"], unique=True, sqlite_where=is_open, postgresql_where=is_open
    )
    unsettled = sa.text("outcome IS NULL")
    op.create_index(
        "ix_approvals_unsettled",
        "approvals",
        ["expires_at"],
        unique=False,
        sqlite_where=unsettled,
        postgresql_where=unsettled,
    )


def _suspended_turns() -> None:
    op.create_table(
        "suspended_turns",
        *(_text(name) for name in ("tenant", "chat_kind", "chat_id", "message_id", "agent_id", "user_id", "origin")),
        _text("language"),
        _text("state", nullable=True),
        _text("approvals"),
        _text("mode"),
        _text("unattended", nullable=True),
        _text("above"),
        sa.Column("revision", sa.Integer(), nullable=False),
        _instant("created_at"),
        _instant("expires_at"),
        sa.PrimaryKeyConstraint(
            "tenant", "chat_kind", "chat_id", "message_id", "agent_id", name=op.f("pk_suspended_turns")
        ),
    )
