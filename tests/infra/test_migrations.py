import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from dragoman.infra.db import Database, MigrationError, Scope, migrate
from dragoman.infra.db.migrator import Migration, list_migrations
from tests.backstage import database_url
from tests.harness import DRAGOMAN, InProcess, Server, wait_for
from tests.infra.databases import new_database, superuser
from tests.patience import PATIENCE_S

FIFTEEN = Path("/usr/lib/postgresql/15/bin")
ROLES = "('dragoman_app', 'dragoman_core', 'dragoman_definer')"
APPLIED = """
SELECT '' AS plugin, number, name FROM schema_migrations
UNION ALL SELECT plugin, number, name FROM plugin_migrations ORDER BY 1, 2"""


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with new_database(database_url(server)) as made:
        yield made


def applied(url: str) -> list[str]:
    return [row["name"] for row in asyncio.run(superuser(url, APPLIED))]


def tables(url: str) -> set[str]:
    return {
        row["tablename"] for row in asyncio.run(superuser(url, "SELECT * FROM pg_tables WHERE schemaname = 'public'"))
    }


def test_no_two_files_have_one_number_and_each_says_why() -> None:
    shipped = list_migrations()

    keys = [each.key for each in shipped]
    assert keys == sorted(set(keys))
    assert [each.name for each in shipped if "why:" not in each.sql.partition("\n")[0]] == []
    assert [each.name for each in shipped if each.in_transaction and "lock_timeout" not in each.sql] == []


def test_ten_processes_at_once_apply_each_file_once(url: str) -> None:
    code = "import asyncio, sys; from dragoman.infra.db import migrate; print(asyncio.run(migrate(sys.argv[1])))"
    running = [
        subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(10)
    ]
    said = [process.communicate(timeout=PATIENCE_S) for process in running]

    assert [process.returncode for process in running] == [0] * 10, said
    counted = sorted(int(out.split()[-1]) for out, _ in said)
    assert counted == [0] * 9 + [len(list_migrations())]
    assert applied(url) == [each.name for each in list_migrations()]


def test_databases_of_one_cluster_can_be_set_up_at_once(server: Server) -> None:
    """The roles belong to the cluster, and both databases want to make them."""

    async def both(*urls: str) -> list[int]:
        return await asyncio.gather(*(migrate(each) for each in urls))

    with new_database(database_url(server)) as one, new_database(database_url(server)) as other:
        assert asyncio.run(both(one, other)) == [len(list_migrations())] * 2


def test_an_edited_file_is_named(url: str) -> None:
    shipped = list_migrations()
    asyncio.run(migrate(url, shipped))
    edited = [Migration(each.number, each.name, each.sql + "\n-- harmless") for each in shipped[:1]] + shipped[1:]

    with pytest.raises(MigrationError, match=rf"{shipped[0].name} was edited after it was applied"):
        asyncio.run(migrate(url, edited))


def test_a_database_of_a_newer_release_is_left_alone(url: str) -> None:
    shipped = list_migrations()
    asyncio.run(migrate(url, [*shipped, Migration(9000, "9000_pre_future.sql", "CREATE TABLE future (id int)")]))

    with pytest.raises(MigrationError, match=r"9000_pre_future\.sql.*newer version"):
        asyncio.run(migrate(url))


def test_a_file_that_fails_leaves_nothing_of_itself_and_those_before_it_stay(url: str) -> None:
    good = Migration(1, "0001_pre_good.sql", "CREATE TABLE good (id int)")
    bad = Migration(2, "0002_pre_bad.sql", "CREATE TABLE half (id int); INSERT INTO nowhere VALUES (1)")
    mended = Migration(2, "0002_pre_bad.sql", "CREATE TABLE whole (id int)")

    with pytest.raises(MigrationError, match=r"0002_pre_bad\.sql failed: .*nowhere"):
        asyncio.run(migrate(url, [good, bad]))

    assert applied(url) == [good.name]
    assert tables(url) == {"good", "schema_migrations", "plugin_migrations"}
    assert asyncio.run(migrate(url, [good, mended])) == 1


def test_a_file_that_builds_an_index_concurrently_runs_outside_a_transaction(url: str) -> None:
    table = Migration(1, "0001_pre_table.sql", "CREATE TABLE good (id int)")
    index = Migration(2, "0002_pre_index.sql", "-- no-transaction\nCREATE INDEX CONCURRENTLY good_id ON good (id)")

    assert asyncio.run(migrate(url, [table, index])) == 2


def test_an_owner_with_createrole_can_migrate_and_serve(server: Server) -> None:
    asyncio.run(_owner_migrates(database_url(server), "CREATEROLE"))


async def _owner_migrates(cluster: str, powers: str) -> None:
    """As a hosted PostgreSQL gives it: no superuser, the roles not made yet or made by another."""
    owner, name = f"owner_{uuid4().hex[:8]}", f"test_{uuid4().hex[:12]}"
    await superuser(cluster, f"CREATE ROLE {owner} LOGIN {powers}")
    await superuser(cluster, f"CREATE DATABASE {name} OWNER {owner}")
    as_owner = re.sub(r"/\w+\?", f"/{name}?", cluster.replace("postgres@", f"{owner}@"))
    try:
        for role in await _existing_roles(cluster):
            await superuser(cluster, f"GRANT {role} TO {owner}")
        assert await migrate(as_owner) == len(list_migrations())
        db = Database(as_owner, size=1)
        await db.start()
        assert await db.fetch(Scope(), "SELECT * FROM tenants") == []
        await db.stop()
    finally:
        await superuser(cluster, f"DROP DATABASE {name} WITH (FORCE)")
        for role in await _existing_roles(cluster):
            await superuser(cluster, f"REVOKE {role} FROM {owner}")
        await superuser(cluster, f"DROP ROLE {owner}")


async def _existing_roles(cluster: str) -> list[str]:
    rows = await superuser(cluster, f"SELECT rolname FROM pg_roles WHERE rolname IN {ROLES}")
    return [row["rolname"] for row in rows]


def test_an_owner_without_createrole_can_migrate_once_an_administrator_made_the_roles(server: Server) -> None:
    asyncio.run(_owner_migrates(database_url(server), "NOCREATEROLE"))


def test_a_user_who_may_not_migrate_is_told_what_to_set(url: str) -> None:
    async def attempt() -> None:
        cluster, user = url, f"user_{uuid4().hex[:8]}"
        await superuser(cluster, f"CREATE ROLE {user} LOGIN")
        try:
            await migrate(cluster.replace("postgres@", f"{user}@"))
        finally:
            await superuser(cluster, f"DROP ROLE {user}")

    with pytest.raises(MigrationError, match="DRAGOMAN_DATABASE_ADMIN_URL"):
        asyncio.run(attempt())


def test_a_user_who_may_not_work_in_our_role_is_told_what_to_grant(server: Server) -> None:
    async def attempt() -> None:
        cluster, user = database_url(server), f"user_{uuid4().hex[:8]}"
        await superuser(cluster, f"CREATE ROLE {user} LOGIN")
        try:
            await Database(cluster.replace("postgres@", f"{user}@")).start()
        finally:
            await superuser(cluster, f"DROP ROLE {user}")

    with pytest.raises(MigrationError, match="GRANT dragoman_app, dragoman_core"):
        asyncio.run(attempt())


@pytest.mark.parametrize("where", ["postgresql://postgres@127.0.0.1:1/x", "postgresql:///x?host=/nowhere"])
def test_a_server_that_finds_no_postgresql_says_so_in_one_line(where: str, tmp_path: Path) -> None:
    settings = {"DRAGOMAN_DATABASE_URL": where, "DRAGOMAN_REDIS_URL": "redis://127.0.0.1:1", "DRAGOMAN_PORT": "0"}
    said = subprocess.run(
        [DRAGOMAN, "serve"], env=os.environ | settings | {"DRAGOMAN_DATA_DIR": str(tmp_path / "d")},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    assert said.returncode != 0
    assert "cannot connect to PostgreSQL" in said.stdout + said.stderr
    assert "Traceback" not in said.stdout + said.stderr


@pytest.fixture(scope="module")
def fifteen() -> Iterator[str]:
    """The oldest PostgreSQL that we promise to run on, with nothing of ours in it."""
    if not (FIFTEEN / "postgres").exists():
        pytest.skip(f"PostgreSQL 15 is not installed in {FIFTEEN}")
    where = Path(tempfile.mkdtemp(prefix="dg15-", dir="/tmp"))
    account = "postgres" if os.geteuid() == 0 else None
    if account is not None:
        shutil.chown(where, "postgres", "postgres")
    initdb = [FIFTEEN / "initdb", "-D", where / "d", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=where, user=account)
    settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={where}", "-c", "fsync=off"]
    with (where.parent / f"{where.name}.log").open("wb") as log:
        running = subprocess.Popen(
            [FIFTEEN / "postgres", "-D", where / "d", *settings], cwd=where, stdout=log, stderr=log, user=account
        )
    cluster = f"postgresql://postgres@/postgres?host={where}"

    def answers() -> bool:
        try:
            asyncio.run(superuser(cluster, "CREATE DATABASE dragoman"))
        except (OSError, asyncpg.PostgresError):
            assert running.poll() is None
            return False
        return True

    try:
        wait_for(answers, "PostgreSQL 15")
        yield cluster.replace("/postgres?", "/dragoman?")
    finally:
        running.terminate()
        running.wait(PATIENCE_S)
        shutil.rmtree(where, ignore_errors=True)
        (where.parent / f"{where.name}.log").unlink()


def test_postgresql_15_will_do(fifteen: str) -> None:
    """A fresh cluster: here the owner without superuser makes the roles itself."""
    asyncio.run(_owner_migrates(fifteen, "CREATEROLE"))


def test_a_server_runs_on_postgresql_15_of_which_it_is_not_the_superuser(fifteen: str) -> None:
    async def set_up() -> str:
        await superuser(fifteen, "CREATE ROLE dragoman LOGIN CREATEROLE")
        await superuser(fifteen, "CREATE DATABASE served OWNER dragoman")
        for role in await _existing_roles(fifteen):
            await superuser(fifteen, f"GRANT {role} TO dragoman")
        return fifteen.replace("postgres@", "dragoman@").replace("/dragoman?", "/served?")

    with InProcess({"DRAGOMAN_DATABASE_URL": asyncio.run(set_up())}) as server, server.admin() as admin:
        made = admin.post("/api/tenant", json={"name": "Acme", "slug": "acme"}, headers={"idempotency-key": "once"})
        listed = admin.get("/api/tenant").json()["data"]
        gone = admin.delete("/api/tenant/acme")

    assert (made.status_code, gone.status_code) == (201, 200)
    assert [tenant["slug"] for tenant in listed] == ["acme", "demo"]
