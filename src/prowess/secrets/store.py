"""Table and queries of secret slots. What is stored of a value is its ciphertext."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, LargeBinary, Row, Table, Text, bindparam, delete, or_, select, update

from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, upsert
from prowess.kernel.clock import from_ms
from prowess.secrets.keys import Sealed
from prowess.secrets.model import SecretInfo, SecretOwner

secrets = Table(
    "secrets",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("owner_kind", Text, primary_key=True),
    Column("owner_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("ciphertext", LargeBinary, nullable=False),
    Column("key_id", Text, nullable=False),
    instant("created_at"),
    instant("updated_at"),
    instant("last_used_at", nullable=True),
)

_KEY = (secrets.c.tenant, secrets.c.owner_kind, secrets.c.owner_id, secrets.c.name)
_THIS = (
    secrets.c.tenant == bindparam("of_tenant"),
    secrets.c.owner_kind == bindparam("of_kind"),
    secrets.c.owner_id == bindparam("of_owner"),
    secrets.c.name == bindparam("of_name"),
)
_FIND = Statement(select(secrets).where(*_THIS))
_OF_TENANT = Statement(select(secrets).where(secrets.c.tenant == bindparam("tenant")).order_by(*_KEY))
_DELETE = Statement(delete(secrets).where(*_THIS))
_TOUCH = Statement(
    update(secrets)
    .where(*_THIS, or_(secrets.c.last_used_at.is_(None), secrets.c.last_used_at <= bindparam("before")))
    .values(last_used_at=bindparam("at"))
)
_RESEAL = Statement(
    update(secrets)
    .where(*_THIS, secrets.c.ciphertext == bindparam("old"))
    .values(ciphertext=bindparam("new"), key_id=bindparam("new_key"))
)


class StoredSecret(NamedTuple):
    """A slot with its ciphertext."""

    info: SecretInfo
    sealed: Sealed


def find_secret(connection: Connection, tenant: str, owner: SecretOwner, name: str) -> StoredSecret | None:
    """This slot and no other's, or none."""
    row = _FIND.first(connection, _this(tenant, owner, name))
    return None if row is None else _to_stored(row)


def secrets_of_tenant(connection: Connection, tenant: str) -> list[StoredSecret]:
    """Every slot of every owner in the tenant, by owner and name."""
    return [_to_stored(row) for row in _OF_TENANT.all(connection, {"tenant": tenant})]


def put_secret(connection: Connection, tenant: str, owner: SecretOwner, name: str, sealed: Sealed, now_ms: int) -> None:
    """Fill a slot, or replace what is in it; a replaced one keeps its ``created_at`` and was never used."""
    changed = {"ciphertext": sealed.data, "key_id": sealed.key_id, "updated_at": now_ms, "last_used_at": None}
    key = {"tenant": tenant, "owner_kind": owner.kind, "owner_id": owner.id, "name": name}
    put = upsert(connection, secrets).values({**key, **changed, "created_at": now_ms})
    connection.execute(put.on_conflict_do_update(index_elements=_KEY, set_=changed))


def delete_secret(connection: Connection, tenant: str, owner: SecretOwner, name: str) -> bool:
    """Remove a slot's row; false where there is none."""
    return _DELETE.run(connection, _this(tenant, owner, name)) == 1


def touch_secret(
    connection: Connection, tenant: str, owner: SecretOwner, name: str, *, now_ms: int, before_ms: int
) -> None:
    """Note the use of a slot, unless one after ``before_ms`` is noted already."""
    _TOUCH.run(connection, {**_this(tenant, owner, name), "at": now_ms, "before": before_ms})


def reseal_secret(connection: Connection, stored: StoredSecret, sealed: Sealed) -> bool:
    """Replace the ciphertext of an unchanged value; false where the slot was changed meanwhile."""
    info = stored.info
    changed = {"old": stored.sealed.data, "new": sealed.data, "new_key": sealed.key_id}
    return _RESEAL.run(connection, {**_this(info.tenant, info.owner, info.name), **changed}) == 1


def _this(tenant: str, owner: SecretOwner, name: str) -> dict[str, Any]:
    return {"of_tenant": tenant, "of_kind": owner.kind, "of_owner": owner.id, "of_name": name}


def _to_stored(row: Row[Any]) -> StoredSecret:
    info = SecretInfo(
        tenant=row.tenant,
        owner=SecretOwner(row.owner_kind, row.owner_id),
        name=row.name,
        created_at=from_ms(row.created_at),
        updated_at=from_ms(row.updated_at),
        last_used_at=None if row.last_used_at is None else from_ms(row.last_used_at),
        key_id=row.key_id,
    )
    return StoredSecret(info, Sealed(row.key_id, row.ciphertext))
