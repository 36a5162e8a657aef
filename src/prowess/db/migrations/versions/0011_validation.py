"""Reports of validation, which are also the cache of level 3."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "validation_reports",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=True),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("trust", sa.Text(), nullable=False),
        sa.Column("rules_version", sa.Text(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("checks", sa.Integer(), nullable=False),
        sa.Column("issues", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_validation_reports")),
        sa.UniqueConstraint(
            "tenant",
            "digest",
            "level",
            "trust",
            "rules_version",
            name=op.f("uq_validation_reports_tenant_digest_level_trust_rules_version"),
        ),
    )
    op.create_index("ix_validation_reports_skill", "validation_reports", ["tenant", "skill_id", "created_at"])
