"""Billing data for tests: rows as a file would have them, stored and rolled up as an import does it."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from random import Random
from typing import Any, Final
from uuid import UUID

import asyncpg

from dragoman.infra.db import Database, Scope
from dragoman.infra.ids import new_id
from dragoman_costs.slices.store import NewSlice, SliceStore
from tests.backstage import sql
from tests.harness import Server

FILE: Final = "export.csv"
_ACCOUNT: Final = """
INSERT INTO cost_accounts (tenant_id, id, provider, identifier, name, status, credential_kind, credential_status,
    created_by) VALUES ($1, $2, $3, $4, $4, 'active', 'none', 'valid', 'test')"""


@dataclass(frozen=True, slots=True)
class Row:
    """A charge."""

    day: date
    effective: Decimal
    account: str = "main"
    billed: Decimal = Decimal(0)
    list: Decimal = Decimal(0)
    contracted: Decimal = Decimal(0)
    currency: str = "USD"
    provider: str = "AWS"
    service: str = "Compute"
    service_category: str = "Compute"
    region: str = "eu-central-1"
    sub_account: str = "sub"
    sub_account_name: str = "Sub"
    resource: str = ""
    resource_name: str = ""
    resource_type: str = ""
    charge_category: str = "Usage"
    charge_description: str = "an hour"
    pricing_category: str = "Standard"
    quantity: Decimal | None = None
    unit: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant with billing data; `accounts` are the ids of its cloud accounts by their names."""

    id: UUID
    slug: str
    accounts: dict[str, UUID] = field(default_factory=dict[str, UUID])


def tenant_of(server: Server, slug: str) -> Tenant:
    """Return a tenant that is there."""
    return Tenant(sql(server, "SELECT id FROM tenants WHERE slug = $1", slug)[0]["id"], slug)


def store(server: Server, tenant: Tenant, rows: Iterable[Row], *, part: str = "") -> None:
    """Import rows: a slice for each account and month, in place of the one before it."""
    asyncio.run(_store(server.database_url, tenant, list(rows), part))


async def _store(url: str, tenant: Tenant, rows: Sequence[Row], part: str) -> None:
    connection = await asyncpg.connect(url)
    db = Database(url)
    slices, scope = SliceStore(db), Scope(tenant.id)
    try:
        for name in sorted({row.account for row in rows} - tenant.accounts.keys()):
            tenant.accounts[name] = new_id()
            provider = next(row.provider for row in rows if row.account == name)
            await connection.execute(_ACCOUNT, tenant.id, tenant.accounts[name], provider, name)
        for (name, period), group in groupby(sorted(rows, key=_slice_of), key=_slice_of):
            new = NewSlice(new_id(), tenant.accounts[name], period, part, new_id(), FILE, "0" * 64)
            await slices.begin(scope, new)
            await _copy(connection, tenant, new.id, list(group))
            await slices.show(scope, new, whole=not part)
    finally:
        await db.stop()
        await connection.close()


async def _copy(connection: Any, tenant: Tenant, slice_id: UUID, rows: Sequence[Row]) -> None:
    names = [one.name for one in fields(Row) if one.name not in ("account", "tags", "resource")]
    columns = ["tenant_id", "slice_id", "line", "charge_start", "commitment_id", "commitment_status", "resource_id",
               "tags", "extra", *names]  # fmt: skip
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=lambda value: value, schema="pg_catalog")
    places = ", ".join(f"${place + 1}" for place in range(len(columns)))
    values = [
        (tenant.id, slice_id, line, datetime.combine(row.day, datetime.min.time(), UTC), "", "", row.resource, row.tags,
         {}, *(getattr(row, name) for name in names))
        for line, row in enumerate(rows, 1)
    ]  # fmt: skip
    await connection.executemany(f"INSERT INTO cost_rows ({', '.join(columns)}) VALUES ({places})", values)


def _slice_of(row: Row) -> tuple[str, date]:
    return row.account, row.day.replace(day=1)


def made_up(seed: int, count: int, *, first: date = date(2026, 8, 1), days: int = 92) -> list[Row]:
    """Return charges of several clouds, accounts and currencies, with tags on most of them."""
    chance = Random(seed)
    accounts = {"prod": ("AWS", "USD"), "data": ("GCP", "EUR"), "office": ("Microsoft", "USD")}
    rows: list[Row] = []
    for _ in range(count):
        account, (provider, currency) = chance.choice(list(accounts.items()))
        service = chance.choice(["Compute", "Object Storage", "Database", "O'Neil; DROP--", "Größe"])
        effective = _amount(chance)
        resource = chance.choice(["", *(f"{account}-{number}" for number in range(4))])
        kinds = {"team": ["red", "blue", "Blue"], "env": ["prod", "test"], "": []}
        chosen = chance.sample(["team", "env"], chance.choice([0, 1, 1, 2]))
        rows.append(
            Row(
                first + timedelta(days=chance.randrange(days)),
                effective,
                account=account,
                billed=effective * Decimal("1.07") if chance.random() < 0.5 else effective,
                list=effective * 2,
                contracted=effective * Decimal("1.5"),
                currency="CHF" if chance.random() < 0.1 else currency,
                provider=provider,
                service=service,
                service_category="Storage" if "Storage" in service else "Compute",
                region=chance.choice(["eu-central-1", "us-east-1", ""]),
                sub_account=chance.choice(["s-1", "s-2"]),
                resource=resource,
                resource_name=resource.upper(),
                resource_type="Virtual Machine" if resource else "",
                charge_category=chance.choice(["Usage", "Usage", "Usage", "Tax", "Credit"]),
                pricing_category=chance.choice(["Standard", "Committed"]),
                quantity=chance.choice([None, Decimal(chance.randrange(1, 500)) / 8]),
                unit=chance.choice(["Hours", "GB"]),
                tags={key: chance.choice(kinds[key]) for key in chosen},
            )
        )
    return rows


def _amount(chance: Random) -> Decimal:
    """Return an amount with up to ten decimals; some are credits."""
    return Decimal(chance.randrange(-(10**11), 10**12)) / Decimal(10) ** chance.choice([2, 6, 10])
