"""Taking skills in: installs with their quarantine, trusted keys, what vouches for a version, locks."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    for name in ("trust", "signer", "signature"):
        op.add_column("skill_versions", sa.Column(name, sa.Text(), nullable=True))
    op.create_table(
        "skill_locks",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("locked_by", sa.Text(), nullable=False),
        sa.Column("locked_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "skill_id", name=op.f("pk_skill_locks")),
    )
    op.create_table(
        "skill_installs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=True),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_kind", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("own", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("trust", sa.Text(), nullable=True),
        sa.Column("signer", sa.Text(), nullable=True),
        sa.Column("signature", sa.Text(), nullable=True),
        sa.Column("permission_level", sa.Integer(), nullable=True),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("changes", sa.Text(), nullable=True),
        sa.Column("installed_by", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_skill_installs")),
    )
    op.create_index("ix_skill_installs_state", "skill_installs", ["tenant", "state", "created_at"])
    op.create_index("ix_skill_installs_skill", "skill_installs", ["tenant", "skill_id", "version"])
    op.create_table(
        "quarantined_files",
        sa.Column("install_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("executable", sa.Boolean(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("install_id", "path", name=op.f("pk_quarantined_files")),
    )
    op.create_table(
        "trusted_keys",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("trusted_by", sa.Text(), nullable=False),
        sa.Column("trusted_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "key_id", name=op.f("pk_trusted_keys")),
    )
