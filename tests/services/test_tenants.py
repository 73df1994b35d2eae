"""What is left of a tenant that was deleted: its name, what refuses its credentials, and its audit trail."""

import asyncio
from typing import Final
from uuid import uuid4

from dragoman.infra.db import Database, Scope, migrate
from dragoman.services.tenancy.store import TenancyStore
from tests.backstage import database_url, sql
from tests.doors.a2a.calling import A2A, tool
from tests.harness import Server
from tests.infra.databases import new_database, superuser
from tests.infra.tenant_rows import fill, tenant_tables
from tests.tenants import done, new_tenant

# Of workers a number stays, by which other processes notice that there are none.
KEPT: Final = {"tenants", "revocations", "audit_records", "audit_links", "audit_heads", "worker_registries"}


def test_every_table_is_emptied_of_a_tenant_that_is_deleted_and_of_no_other(server: Server) -> None:
    gone, other = uuid4(), uuid4()

    async def delete(url: str) -> tuple[set[str], set[str]]:
        db = Database(url, size=2)
        store, platform = TenancyStore(db), Scope(platform=True)
        async with db.unit(platform):
            await store.empty_tenant(platform, gone)
            await store.change_tenant(platform, gone, status="deleted", version=1)
        await db.stop()
        return await holders(url, gone), await holders(url, other)

    with new_database(database_url(server)) as url:
        asyncio.run(migrate(url))
        asyncio.run(fill(url, gone, other))
        left, untouched = asyncio.run(delete(url))
        every = set(asyncio.run(tenant_tables(url)))

    assert left == KEPT
    assert untouched == every


async def holders(url: str, tenant: object) -> set[str]:
    """The tables that have rows of a tenant."""
    tables = (await tenant_tables(url)).items()
    return {
        name
        for name, whose in tables
        if await superuser(url, f"SELECT 1 FROM {name} WHERE {whose} = $1 LIMIT 1", tenant)
    }


def test_the_tasks_of_a_tenant_go_with_it_at_once_and_its_audit_trail_stays(server: Server) -> None:
    slug = new_tenant(server)
    caller = A2A(server, tenant=slug)
    caller.send(tool("memory_add", {"content": "tea"}))
    caller.http.close()
    [[tenant]] = sql(server, "SELECT id FROM tenants WHERE slug = $1", slug)

    with server.admin() as platform:
        done(platform.delete(f"/api/tenant/{tenant}"))

    assert asyncio.run(holders(database_url(server), tenant)) <= KEPT
    recorded = sql(server, "SELECT operation FROM audit_records WHERE tenant_id = $1", tenant)
    assert {row["operation"] for row in recorded} == {"memory.add", "message.send"}
