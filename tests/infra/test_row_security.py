import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from dragoman.infra.db import APP_ROLE, CORE_ROLE, Database, Scope, migrate
from tests.backstage import database_url
from tests.harness import Server
from tests.infra.databases import new_database, superuser
from tests.infra.tenant_rows import fill, tenant_tables

pytestmark = pytest.mark.anyio

ACME, RIVAL = uuid4(), uuid4()


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with new_database(database_url(server)) as made:
        asyncio.run(migrate(made))
        asyncio.run(fill(made, ACME, RIVAL))
        yield made


@pytest.fixture
async def db(url: str) -> AsyncIterator[Database]:
    database = Database(url, size=2)
    yield database
    await database.stop()


async def test_every_table_of_tenants_is_locked_by_a_policy_that_asks_for_the_tenant(url: str) -> None:
    tables = await tenant_tables(url)
    locked = await superuser(url, "SELECT relname FROM pg_class WHERE relrowsecurity")
    policies = await superuser(
        url, "SELECT tablename, qual, with_check FROM pg_policies WHERE $1 = ANY(roles)", APP_ROLE
    )

    assert len(tables) >= 8
    assert set(tables) <= {row["relname"] for row in locked}
    assert set(tables) <= {row["tablename"] for row in policies}
    for policy in policies:
        assert "current_tenant()" in policy["qual"]
        assert policy["with_check"] is None or "current_tenant()" in policy["with_check"]


@pytest.mark.parametrize("role", [APP_ROLE, CORE_ROLE])
async def test_the_roles_of_the_application_are_no_superusers_and_own_nothing(url: str, role: str) -> None:
    row = (await superuser(url, "SELECT * FROM pg_roles WHERE rolname = $1", role))[0]
    powers = ("rolsuper", "rolbypassrls", "rolcreaterole", "rolcreatedb", "rolreplication", "rolcanlogin")

    assert [power for power in powers if row[power]] == []
    assert await superuser(url, "SELECT 1 FROM pg_class WHERE relowner = $1::regrole", role) == []
    assert (await superuser(url, "SELECT has_schema_privilege($1, 'public', 'CREATE') AS may", role))[0]["may"] is False


async def test_the_application_runs_in_its_role(db: Database) -> None:
    row = await db.find(Scope(), "SELECT current_user::text AS who")

    assert row is not None
    assert row["who"] == APP_ROLE
    await db.stop()


async def test_a_part_of_a_table_is_reached_through_its_whole_alone(url: str) -> None:
    """The lock is on the whole: a part that could be named would be a way around it."""
    granted = """
    SELECT c.relname FROM pg_class c, unnest(ARRAY['dragoman_app', 'dragoman_core']) AS role
    WHERE c.relispartition AND c.relkind = 'r'
      AND has_table_privilege(role, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')"""

    assert await superuser(url, "SELECT 1 FROM pg_class WHERE relispartition AND relkind = 'r'") != []
    assert await superuser(url, granted) == []


async def test_a_statement_that_forgets_its_tenant_sees_nothing(url: str, db: Database) -> None:
    for table in await tenant_tables(url):
        assert await count(db, Scope(), table) == 0, table
        assert (await superuser(url, f"SELECT count(*) AS n FROM {table}"))[0]["n"] >= 2, table
    await db.stop()


async def test_a_statement_sees_its_own_tenant_and_no_other_whatever_it_names(url: str, db: Database) -> None:
    for table, whose in (await tenant_tables(url)).items():
        assert await count(db, Scope(ACME), table) == 1, table
        assert await count(db, Scope(ACME), table, whose, RIVAL) == 0, table
        assert await count(db, Scope(ACME), table, whose, ACME) == 1, table
    await db.stop()


async def test_the_platform_sees_the_list_of_tenants_and_not_what_is_in_them(url: str, db: Database) -> None:
    seen = {table: await count(db, Scope(platform=True), table) for table in await tenant_tables(url)}

    assert {table for table, n in seen.items() if n} == {"tenants", "revocations"}
    await db.stop()


async def test_nothing_of_another_tenant_can_be_changed_or_slipped_in(url: str, db: Database) -> None:
    before = {table: await superuser(url, f"SELECT * FROM {table} ORDER BY 1, 2") for table in await tenant_tables(url)}

    for table, whose in (await tenant_tables(url)).items():
        for statement in (f"UPDATE {table} SET {whose} = {whose}", f"DELETE FROM {table}"):
            assert await touched(db, f"{statement} WHERE {whose} = $1", RIVAL) == 0
    with pytest.raises(RuntimeError, match="row-level security"):
        await db.execute(
            Scope(ACME), "INSERT INTO idempotency_keys (tenant_id, scope, key, digest) VALUES ($1, 'a', 'b', '')", RIVAL
        )

    after = {table: await superuser(url, f"SELECT * FROM {table} ORDER BY 1, 2") for table in before}
    assert after == before
    await db.stop()


async def test_only_the_platform_can_empty_a_tenant(db: Database) -> None:
    with pytest.raises(RuntimeError, match="only the platform"):
        await db.execute(Scope(ACME), "SELECT empty_tenant($1)", RIVAL)
    await db.stop()


async def test_a_temporary_table_cannot_stand_in_for_one_of_ours(url: str) -> None:
    """Functions that see past the lock must not be led to look elsewhere."""
    connection = await asyncpg.connect(url, server_settings={"role": APP_ROLE})
    try:
        await connection.execute("CREATE TEMPORARY TABLE tenants (id uuid, slug text, plan text, status text)")
        await connection.execute("INSERT INTO tenants VALUES (gen_random_uuid(), 'forged', 'enterprise', 'active')")
        await connection.execute("GRANT SELECT ON pg_temp.tenants TO PUBLIC")

        assert await connection.fetch("SELECT * FROM auth_find_tenant('forged')") == []
    finally:
        await connection.close()


async def touched(db: Database, statement: str, tenant: UUID) -> int:
    """How many rows; none when the role may not do such a thing at all."""
    try:
        return await db.execute(Scope(ACME), statement, tenant)  # pyright: ignore[reportArgumentType]
    except RuntimeError as refused:
        if "permission denied" in str(refused):
            return 0
        raise


async def count(db: Database, scope: Scope, table: str, whose: str = "", tenant: UUID | None = None) -> int:
    condition = f" WHERE {whose} = $1" if tenant else ""
    try:
        row = await db.find(scope, f"SELECT count(*) AS n FROM {table}{condition}", *([tenant] if tenant else []))  # pyright: ignore[reportArgumentType]
    except RuntimeError as refused:
        raise AssertionError(f"{table}: {refused}") from refused
    assert row is not None
    return row["n"]
