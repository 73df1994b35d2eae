import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from dragoman.errors import InvalidInput, UpstreamUnavailable
from dragoman.infra.db import APP_ROLE, Database, Scope, UniqueViolated, migrate
from dragoman.infra.db.pool import Connection, Pool
from dragoman.infra.embedded import EmbeddedServices
from tests.backstage import database_url
from tests.harness import Server, data_dir
from tests.infra.databases import kill_connections, new_database, superuser
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio

ACME, RIVAL = Scope(uuid4()), Scope(uuid4())
WHOSE = "SELECT current_setting('dragoman.tenant', true) AS tenant"
ADD = "INSERT INTO idempotency_keys (tenant_id, scope, key, digest) VALUES ($1, 'test', $2, '')"
COUNT = "SELECT count(*) AS n FROM idempotency_keys WHERE key = $1"
SIZE = 3
# Long enough to begin, and what is cut short is so whether it began or not.
SOON_S = 0.1


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with new_database(database_url(server)) as made:
        asyncio.run(migrate(made))
        yield made


@asynccontextmanager
async def opened(url: str, *, size: int = SIZE, wait_s: float = 10) -> AsyncGenerator[Database]:
    """A database for one test, which must leave it able to hand out all its connections."""
    db = Database(url, size=size, wait_s=wait_s)
    try:
        yield db
        with anyio.fail_after(PATIENCE_S):
            taken = [await db._pool.take(Scope()) for _ in range(size)]
        for connection in taken:
            db._pool.give(connection)
    finally:
        await db.stop()


async def tenant_seen(db: Database, scope: Scope) -> str:
    row = await db.find(scope, WHOSE)
    assert row is not None
    return row["tenant"] or ""


async def keys_like(db: Database, key: str, scope: Scope = ACME) -> int:
    row = await db.find(scope, COUNT, key)
    assert row is not None
    return row["n"]


async def until_waiting(pool: Pool, number: int) -> None:
    """Let the others run until so many of them stand in line."""
    with anyio.fail_after(PATIENCE_S):
        while len([each for each in pool._waiting if not each.done()]) != number:
            await anyio.lowlevel.checkpoint()


# Scopes


async def test_a_connection_shows_the_next_one_nothing_of_the_last(url: str) -> None:
    async with opened(url, size=1) as db:
        await db.execute(ACME, ADD, ACME.tenant, key := uuid4().hex)

        assert await keys_like(db, key) == 1
        assert await keys_like(db, key, RIVAL) == 0
        assert await keys_like(db, key, Scope()) == 0
        assert await keys_like(db, key, Scope(platform=True)) == 0
        assert [await tenant_seen(db, each) for each in (ACME, Scope(), RIVAL)] == [
            str(ACME.tenant),
            "",
            str(RIVAL.tenant),
        ]


async def test_a_failed_statement_leaves_no_scope_behind(url: str) -> None:
    async with opened(url, size=1) as db:
        with pytest.raises(RuntimeError, match="DivisionByZero"):
            await db.find(ACME, "SELECT 1 / 0")
        with pytest.raises(ValueError, match="of the block"):
            async with db.unit(ACME):
                raise ValueError("of the block")

        assert await tenant_seen(db, Scope()) == ""
        assert await tenant_seen(db, RIVAL) == str(RIVAL.tenant)


@pytest.mark.parametrize("in_unit", [False, True])
async def test_a_statement_that_is_cut_short_costs_its_connection_and_shows_nothing(url: str, in_unit: bool) -> None:
    async def slow(db: Database) -> None:
        if in_unit:
            async with db.unit(ACME):
                await db.find(ACME, "SELECT pg_sleep(600)")
        else:
            await db.find(ACME, "SELECT pg_sleep(600)")

    async with opened(url, size=1) as db:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON_S):
                await slow(db)
        assert await tenant_seen(db, Scope()) == ""

        running = asyncio.create_task(slow(db))
        asleep = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
        with anyio.fail_after(PATIENCE_S):
            while not await superuser(url, asleep):
                await anyio.lowlevel.checkpoint()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await tenant_seen(db, RIVAL) == str(RIVAL.tenant)
        with anyio.fail_after(PATIENCE_S):
            while await superuser(url, asleep):
                await anyio.lowlevel.checkpoint()


async def test_setting_the_scope_may_be_cut_short_too(url: str) -> None:
    async with opened(url, size=1) as db:
        for _ in range(20):
            await tenant_seen(db, ACME)
            taking = asyncio.create_task(tenant_seen(db, RIVAL))
            await asyncio.sleep(0)
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)

            assert await tenant_seen(db, Scope()) == ""


# Units of work


async def test_a_unit_commits_together_or_not_at_all(url: str) -> None:
    async with opened(url) as db:
        kept, lost = uuid4().hex, uuid4().hex

        async with db.unit(ACME):
            await db.execute(ACME, ADD, ACME.tenant, kept)
            assert (await superuser(url, COUNT, kept))[0]["n"] == 0

        async def add_both() -> None:
            async with db.unit(ACME):
                await db.execute(ACME, ADD, ACME.tenant, lost)
                await db.execute(ACME, ADD, ACME.tenant, kept)

        with pytest.raises(UniqueViolated) as caught:
            await add_both()

        assert caught.value.constraint == "idempotency_keys_pkey"
        assert (await keys_like(db, kept), await keys_like(db, lost)) == (1, 0)


async def test_a_unit_inside_a_unit_joins_it(url: str) -> None:
    async with opened(url, size=1) as db:
        key = uuid4().hex

        async def fail() -> None:
            async with db.unit(ACME):
                async with db.unit(ACME):
                    await db.execute(ACME, ADD, ACME.tenant, key)
                assert await keys_like(db, key) == 1
                raise ValueError("outer")

        with pytest.raises(ValueError, match="outer"):
            await fail()

        assert await keys_like(db, key) == 0


async def test_another_scope_inside_a_unit_is_a_mistake(url: str) -> None:
    async with opened(url) as db, opened(url) as other, db.unit(ACME):
        for wrong in (RIVAL, Scope(), Scope(ACME.tenant, platform=True)):
            with pytest.raises(RuntimeError, match="cannot run a statement for"):
                await db.find(wrong, "SELECT 1")
        assert await tenant_seen(other, RIVAL) == str(RIVAL.tenant)


async def test_what_follows_a_unit_runs_after_its_commit_and_never_after_a_rollback(url: str) -> None:
    async with opened(url) as db:
        told: list[int] = []
        key = uuid4().hex

        async def tell() -> None:
            told.append((await superuser(url, COUNT, key))[0]["n"])

        async def fail() -> None:
            async with db.unit(ACME):
                await db.after_commit(tell)
                raise ValueError("undone")

        with pytest.raises(ValueError, match="undone"):
            await fail()
        assert told == []
        async with db.unit(ACME):
            await db.execute(ACME, ADD, ACME.tenant, key)
            async with db.unit(ACME):
                await db.after_commit(tell)
            assert told == []
        assert told == [1]
        await db.after_commit(tell)
        assert told == [1, 1]


async def test_a_follow_up_that_fails_does_not_deny_what_is_committed(url: str) -> None:
    async with opened(url) as db:
        told: list[str] = []

        async def fail() -> None:
            raise OSError("valkey is away")

        async def tell() -> None:
            told.append("told")

        async with db.unit(ACME):
            await db.execute(ACME, ADD, ACME.tenant, key := uuid4().hex)
            await db.after_commit(fail)
            await db.after_commit(tell)

        assert (told, await keys_like(db, key)) == (["told"], 1)


async def test_a_task_that_outlives_its_unit_does_not_use_its_connection(url: str) -> None:
    """It would run on what is by then another tenant's connection."""
    async with opened(url, size=1) as db:
        ended, told = asyncio.Event(), list[str]()

        async def linger() -> str:
            await ended.wait()

            async def tell() -> None:
                told.append("told")

            await db.after_commit(tell)
            return await tenant_seen(db, ACME)

        async with db.unit(ACME):
            lingering = asyncio.create_task(linger())
        async with db.unit(RIVAL):
            ended.set()
            await until_waiting(db._pool, 1)
            assert await tenant_seen(db, RIVAL) == str(RIVAL.tenant)

        assert (await lingering, told) == (str(ACME.tenant), ["told"])


# The pool


async def test_those_who_wait_are_served_in_order(url: str) -> None:
    async with opened(url, size=1) as db:
        served: list[int] = []

        async def ask(number: int) -> None:
            async with db.unit(Scope(uuid4()) if number % 2 else ACME):
                served.append(number)

        held = await db._pool.take(ACME)
        asking: list[asyncio.Task[None]] = []
        for number in range(10):
            asking.append(asyncio.create_task(ask(number)))
            await until_waiting(db._pool, number + 1)
        db._pool.give(held)
        await asyncio.gather(*asking)

        assert served == list(range(10))


async def test_a_used_up_pool_refuses_after_a_while_and_says_when_to_come_back(url: str) -> None:
    async with opened(url, size=1, wait_s=0.05) as db:
        held = await db._pool.take(ACME)

        with pytest.raises(UpstreamUnavailable) as caught:
            await db.find(ACME, "SELECT 1")
        with pytest.raises(UpstreamUnavailable):
            async with db.unit(RIVAL):
                pass

        db._pool.give(held)
        assert caught.value.code == "UPSTREAM_UNAVAILABLE"
        assert caught.value.retry_after_s == 2


async def test_those_who_stop_waiting_lose_no_connection(url: str) -> None:
    async with opened(url, size=2) as db:
        held = [await db._pool.take(ACME) for _ in range(2)]
        waiting = [asyncio.create_task(db._pool.take(RIVAL)) for _ in range(6)]
        await until_waiting(db._pool, 6)

        waiting[0].cancel()
        db._pool.give(held[0])  # to the second, which is cancelled in the same moment
        waiting[1].cancel()
        waiting[2].cancel()
        db._pool.give(held[1])
        results = []
        for task in waiting:
            with anyio.fail_after(PATIENCE_S):
                (result,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(result, Connection):
                db._pool.give(result)
            results.append(type(result))

        assert results == [asyncio.CancelledError] * 3 + [Connection] * 3


async def test_a_place_that_is_freed_for_one_who_left_goes_to_the_next(url: str) -> None:
    async with opened(url, size=1) as db:
        held = await db._pool.take(ACME)
        first, second = (asyncio.create_task(db._pool.take(RIVAL)) for _ in range(2))
        await until_waiting(db._pool, 2)

        held.terminate()
        db._pool.drop(held)
        first.cancel()

        with anyio.fail_after(PATIENCE_S):
            db._pool.give(await second)
        assert first.cancelled()


async def test_a_closed_pool_refuses_at_once(url: str) -> None:
    db = Database(url, size=1)
    held = await db._pool.take(ACME)
    waiting = asyncio.create_task(db.find(ACME, "SELECT 1"))
    await until_waiting(db._pool, 1)

    await db.stop()
    db._pool.give(held)

    for refused in (waiting, db.find(ACME, "SELECT 1")):
        with pytest.raises(UpstreamUnavailable):
            await refused


async def test_connections_that_are_not_needed_are_closed_but_for_two(url: str) -> None:
    """Servers that were busy once would otherwise hold connections that others lack."""
    pool = Pool(url, role=APP_ROLE, size=5, wait_s=10, by_index=False, lock_s=None, spare_s=0.05)
    taken = [await pool.take(ACME) for _ in range(5)]

    for connection in taken:
        pool.give(connection)

    with anyio.fail_after(PATIENCE_S):
        while not all(connection.is_closed() for connection in taken[:3]):  # noqa: ASYNC110 - the driver tells nobody
            await asyncio.sleep(0.01)
    assert [connection.is_closed() for connection in taken[3:]] == [False, False]
    again = [await pool.take(ACME) for _ in range(5)]
    assert set(taken[3:]) < set(again)
    for connection in again:
        pool.give(connection)
    await pool.close()


async def test_killed_connections_are_replaced(url: str) -> None:
    async with opened(url) as db:
        taken = [await db._pool.take(ACME) for _ in range(SIZE)]
        for connection in taken:
            db._pool.give(connection)

        assert await kill_connections(url) >= SIZE
        with anyio.fail_after(PATIENCE_S):
            while not all(connection.is_closed() for connection in taken):
                await anyio.lowlevel.checkpoint()

        assert await tenant_seen(db, ACME) == str(ACME.tenant)


async def test_a_connection_killed_in_a_unit_is_an_outage_and_nothing_is_kept(url: str) -> None:
    async with opened(url) as db:
        key = uuid4().hex

        async def add() -> None:
            async with db.unit(ACME):
                await db.execute(ACME, ADD, ACME.tenant, key)
                await kill_connections(url)
                await db.find(ACME, "SELECT 1")

        with pytest.raises(UpstreamUnavailable):
            await add()

        assert await keys_like(db, key) == 0


def kill_postmaster(where: Path) -> None:
    os.kill(int((where / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)


async def test_a_restart_of_postgresql_is_survived() -> None:
    where = data_dir()
    services = EmbeddedServices(where, valkey=False)
    await services.start()
    try:
        await migrate(services.database_url)
        async with opened(services.database_url) as db:
            await tenant_seen(db, ACME)
            kill_postmaster(where)

            refusals = 0
            with anyio.fail_after(PATIENCE_S):
                while True:
                    try:
                        assert await tenant_seen(db, RIVAL) == str(RIVAL.tenant)
                    except UpstreamUnavailable:
                        refusals += 1
                        await anyio.lowlevel.checkpoint()
                    else:
                        if refusals:
                            break
    finally:
        await services.stop()


@pytest.mark.parametrize("where", ["postgresql://postgres@127.0.0.1:1/x", "postgresql:///x?host=/nowhere"])
async def test_an_absent_postgresql_is_an_outage(where: str) -> None:
    with pytest.raises(UpstreamUnavailable):
        await Database(where).start()


# What the driver complains of, in our words


async def test_a_value_that_cannot_be_stored_is_the_callers_mistake(url: str) -> None:
    async with opened(url) as db:
        for refused in (
            db.find(ACME, "SELECT $1::text", "a\x00b"),
            db.find(ACME, "SELECT $1::jsonb", {"a": "\x00"}),
            db.find(ACME, "SELECT $1::int", 2**31),
            db.find(ACME, "SELECT $1::timestamptz", datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))),
        ):
            with pytest.raises(InvalidInput):
                await refused


async def test_a_mistake_of_ours_is_no_outage(url: str) -> None:
    async with opened(url) as db:
        for mistake in (
            db.find(ACME, "SELECT $1::int"),
            db.find(ACME, "SELEC 1"),
            db.find(ACME, "SELECT 1 FROM nowhere"),
        ):
            with pytest.raises(RuntimeError):
                await mistake


async def test_two_who_wait_for_each_other_are_told_to_try_again(url: str) -> None:
    async with opened(url) as db:
        one, other = uuid4().hex, uuid4().hex
        for key in (one, other):
            await db.execute(ACME, ADD, ACME.tenant, key)
        both = asyncio.Barrier(2)

        async def lock(first: str, second: str) -> None:
            touch = "UPDATE idempotency_keys SET digest = 'x' WHERE tenant_id = $1 AND key = $2"
            async with db.unit(ACME):
                await db.execute(ACME, touch, ACME.tenant, first)
                await both.wait()
                await db.execute(ACME, touch, ACME.tenant, second)

        ends = await asyncio.gather(lock(one, other), lock(other, one), return_exceptions=True)

        assert sorted(type(end).__name__ for end in ends) == ["Contended", "NoneType"]
