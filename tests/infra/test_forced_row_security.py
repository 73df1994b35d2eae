"""Row-level security holds for whoever owns the tables, and for the login of a server past its role."""

import asyncio
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from uuid import uuid4

import asyncpg
import pytest

from dragoman.infra.db import APP_ROLE, CORE_ROLE, LOGIN_ROLE, Database, migrate
from dragoman.infra.db.login import find_excess, make_login
from dragoman.testing import RunningServer, running, shared_services
from tests.doors.rest.calling import data
from tests.infra.databases import new_database, superuser
from tests.infra.tenant_rows import fill, tenant_tables

pytestmark = pytest.mark.anyio
ACME, RIVAL = uuid4(), uuid4()
UNFORCED = """
SELECT relname FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
  AND NOT (relrowsecurity AND relforcerowsecurity)
  AND (relname = 'tenants' OR EXISTS (SELECT FROM pg_attribute a WHERE attrelid = c.oid AND attname = 'tenant_id'))"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with new_database(shared_services().database_url) as made:
        asyncio.run(migrate(made))
        asyncio.run(fill(made, ACME, RIVAL))
        yield made


@contextmanager
def production(url: str) -> Generator[tuple[str, str]]:
    """The two users of docs/operations.md, as their addresses: the owner, and the login of servers."""
    owner, login, name = (f"{role}_{uuid4().hex[:8]}" for role in ("owner", "login", "served"))
    for statement in (
        f"CREATE ROLE {owner} LOGIN NOSUPERUSER",
        f"GRANT {APP_ROLE}, {CORE_ROLE}, dragoman_definer TO {owner}",
        f"CREATE ROLE {login} LOGIN NOINHERIT",
        f"GRANT {APP_ROLE}, {CORE_ROLE} TO {login}",
        f"CREATE DATABASE {name} OWNER {owner}",
    ):
        asyncio.run(superuser(url, statement))
    place = re.sub(r"/\w+\?", f"/{name}?", url)
    try:
        yield place.replace("postgres@", f"{owner}@"), place.replace("postgres@", f"{login}@")
    finally:
        asyncio.run(superuser(url, f"DROP DATABASE {name} WITH (FORCE)"))
        for role in (owner, login):
            asyncio.run(superuser(url, f"DROP OWNED BY {role}"))
            asyncio.run(superuser(url, f"DROP ROLE {role}"))


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with running() as started:
        yield started


async def test_every_table_of_tenants_is_locked_to_its_owner_too_and_so_is_every_part(url: str) -> None:
    assert len(await tenant_tables(url)) >= 40
    assert await superuser(url, UNFORCED) == []


async def test_what_sees_past_the_lock_runs_in_a_role_that_nobody_can_log_in_as(url: str) -> None:
    definers = await superuser(
        url, "SELECT proname, proowner::regrole::text AS owner FROM pg_proc WHERE prosecdef AND pronamespace = 2200"
    )
    role = (await superuser(url, "SELECT * FROM pg_roles WHERE rolname = 'dragoman_definer'"))[0]
    powers = ("rolsuper", "rolbypassrls", "rolcreaterole", "rolcreatedb", "rolreplication", "rolcanlogin")

    assert {"auth_find_key", "empty_tenant", "memory_match_words"} <= {row["proname"] for row in definers}
    assert {row["owner"] for row in definers} == {"dragoman_definer"}
    assert [power for power in powers if role[power]] == []
    assert await superuser(url, "SELECT 1 FROM pg_class WHERE relowner = 'dragoman_definer'::regrole") == []
    assert await superuser(url, "SELECT 1 WHERE has_schema_privilege('dragoman_definer', 'public', 'CREATE')") == []


async def test_the_login_of_a_server_sees_nothing_of_any_tenant_once_it_leaves_its_role(url: str) -> None:
    """As SQL that somebody slipped in could: RESET ROLE is one statement."""
    await make_login(url)
    connection = await asyncpg.connect(
        url.replace("postgres@", f"{LOGIN_ROLE}@"), server_settings={"dragoman.tenant": str(ACME)}
    )
    try:
        await connection.execute(f"SET ROLE {APP_ROLE}")
        assert await connection.fetchval("SELECT count(*) FROM memories") == 1
        await connection.execute("RESET ROLE")
        assert await connection.fetchval("SELECT current_user::text") == LOGIN_ROLE
        for table in await tenant_tables(url):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch(f"SELECT FROM {table}")
        for role in ("dragoman_definer", "postgres"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(f"SET ROLE {role}")
    finally:
        await connection.close()


async def test_an_owner_without_the_role_of_definers_sees_no_rows(url: str) -> None:
    """What FORCE is for: to own a table is not to see what tenants keep in it."""
    owner = f"owner_{uuid4().hex[:8]}"
    await superuser(url, f"CREATE ROLE {owner} LOGIN")
    await superuser(url, f"ALTER TABLE governance_suppressions OWNER TO {owner}")
    connection = await asyncpg.connect(url.replace("postgres@", f"{owner}@"))
    try:
        assert await connection.fetchval("SELECT count(*) FROM governance_suppressions") == 0
    finally:
        await connection.close()
        await superuser(url, "ALTER TABLE governance_suppressions OWNER TO postgres")
        await superuser(url, f"DROP OWNED BY {owner}")
        await superuser(url, f"DROP ROLE {owner}")


def test_a_server_whose_login_owns_nothing_does_everything_that_one_of_a_superuser_does() -> None:
    """docs/operations.md: one user migrates and is gone, the other serves; a tenant is made, used and emptied."""
    with production(shared_services().database_url) as (owner, login):
        asyncio.run(migrate(owner))
        with running({"DRAGOMAN_DATABASE_URL": login}) as server, server.admin() as admin:
            data(admin.post("/api/tenant", json={"name": "Acme", "slug": "acme"}), 201)
            with server.client(server.token(tenant="acme")) as acme:
                data(acme.post("/api/memories", json={"content": "The tea is green"}))
                found = data(acme.post("/api/memories/search", json={"query": "tea"}))["results"]
                key = data(
                    acme.post("/api/keys", json={"name": "bot", "principal_type": "agent", "role": "agent"}), 201
                )
                with server.client(key["secret"]) as bot:
                    assert bot.get("/api/me").status_code == 200
            data(admin.delete("/api/tenant/acme"))
            warned = [line for line in server.log_lines() if line["message"] == "database.login_may_too_much"]
        left = asyncio.run(rows_left(owner))

    assert [one["content"] for one in found] == ["The tea is green"]
    assert warned == []
    assert left == {"memories": 0, "api_keys": 0}


async def rows_left(owner: str) -> dict[str, int]:
    place = re.sub(r"//\w+@", "//postgres@", owner)
    counts = {}
    for table in ("memories", "api_keys"):
        counts[table] = (await superuser(place, f"SELECT count(*) AS n FROM {table}"))[0]["n"]
    return counts


def test_a_login_that_may_not_migrate_says_what_is_missing_and_who_can() -> None:
    with production(shared_services().database_url) as (owner, login):
        asyncio.run(migrate(owner))
        asyncio.run(
            superuser(re.sub(r"//\w+@", "//postgres@", owner), "DELETE FROM schema_migrations WHERE number = 30")
        )

        with (
            pytest.raises(Exception, match=r"lacks 0030_.*dragoman migrate"),
            running({"DRAGOMAN_DATABASE_URL": login}),
        ):
            pass


@pytest.mark.parametrize(("user", "word"), [("postgres", "superuser"), ("owner", "owns tables"), ("heir", "NOINHERIT")])
async def test_a_start_warns_of_a_login_that_may_too_much(url: str, user: str, word: str) -> None:
    heir = f"heir_{uuid4().hex[:8]}"
    grants = f"{APP_ROLE}, {CORE_ROLE}"
    await superuser(url, f"CREATE ROLE {heir} LOGIN {'NOINHERIT' if user == 'owner' else 'INHERIT'}")
    await superuser(url, f"GRANT {grants} TO {heir}")
    if user == "owner":
        await superuser(url, f"ALTER TABLE governance_suppressions OWNER TO {heir}")
    db = Database(url if user == "postgres" else url.replace("postgres@", f"{heir}@"), size=1)
    try:
        [excess] = await find_excess(db)
    finally:
        await db.stop()
        await superuser(url, "ALTER TABLE governance_suppressions OWNER TO postgres")
        await superuser(url, f"DROP OWNED BY {heir}")
        await superuser(url, f"DROP ROLE {heir}")

    assert word in excess


def test_the_log_names_a_login_that_may_too_much_and_the_embedded_one_may_not(server: RunningServer) -> None:
    own = [line for line in server.log_lines() if line["message"] == "database.login_may_too_much"]
    elsewhere = server.database_url.replace("?", "?application_name=other&")
    with running({"DRAGOMAN_DATABASE_URL": elsewhere, "DRAGOMAN_REDIS_URL": server.redis_url,
                  "DRAGOMAN_SECRETS_DIR": str(server.settings.secrets_path)}) as other:  # fmt: skip
        warned = [line for line in other.log_lines() if line["message"] == "database.login_may_too_much"]

    assert own == []
    assert [line["severity"].lower() for line in warned] == ["warning"]
