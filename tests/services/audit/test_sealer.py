"""Sealing under trouble: many writers in two processes, late commits, a held transaction, a killed database."""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# The driver has no types.

import asyncio
import hmac
import os
import secrets
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dragoman.infra.db import CORE_ROLE, Database
from dragoman.infra.ids import new_id
from dragoman.services.audit.chain import Head
from dragoman.services.audit.heads import HeadsFile
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.sealer import Sealer
from dragoman.services.audit.store import Pending, SealStore, Watermark
from dragoman.services.audit.trail import Entry, encode, shown
from tests.harness import Server, wait_for
from tests.infra.log_lines import captured
from tests.services.audit.ledger import Ledger, database_url, run_sql

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


@pytest.fixture(scope="module")
def crew() -> Iterator[Server]:
    """Two processes on one database: two sealers that take turns."""
    with Server({"DRAGOMAN_WORKERS": "2"}) as running:
        yield running


@asynccontextmanager
async def uncommitted_record(ledger: Ledger) -> AsyncGenerator[Any]:
    """A genuine record in a transaction that stays open until the block ends."""
    record_id = new_id()
    body = encode(record_id, ledger.caller, Entry("key.create", Outcome.DONE))
    columns = shown(body)
    connection = await asyncpg.connect(database_url(ledger.server))
    try:
        async with connection.transaction(), connection.transaction():  # the inner one is a savepoint
            await connection.execute(
                "INSERT INTO audit_records (tenant_id, id, at, operation, outcome, subject, body, mac) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                ledger.tenant,
                record_id,
                columns.at,
                columns.operation,
                columns.outcome,
                columns.subject,
                body,
                hmac.digest(ledger.mac_key, body, "sha256"),
            )
            yield record_id
    finally:
        await connection.close()


def while_uncommitted(ledger: Ledger, do: Callable[[], None]) -> Any:
    async def run() -> Any:
        async with uncommitted_record(ledger) as record_id:
            await asyncio.to_thread(do)
            return record_id

    return asyncio.run(run())


def logged(server: Server, event: str) -> list[dict[str, Any]]:
    return [line for line in server.log_lines() if line["message"] == event]


def health(server: Server) -> dict[str, Any]:
    with server.client() as client:
        return client.get("/health").json()


def seal_lag_s(server: Server) -> float:
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return max(float(line.split()[-1]) for line in lines if line.startswith("dragoman_audit_seal_lag_seconds"))


def test_two_hundred_writes_of_three_tenants_make_three_unbroken_chains(crew: Server) -> None:
    ledgers = [Ledger(crew) for _ in range(3)]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: ledgers[number % 3].write(), range(200)))

    for ledger, count in zip(ledgers, (67, 67, 66), strict=True):
        ledger.wait_sealed(count)
        assert len({record_id for _, record_id, _ in ledger.links()}) == count
        assert (ledger.verify()["ok"], ledger.verify()["records"]) == (True, count)


def test_a_late_commit_is_sealed_in_its_place(crew: Server) -> None:
    """Its transaction is the oldest: all that began later waits for it, and none of it is lost."""
    ledger = Ledger(crew)

    def write_meanwhile() -> None:
        ledger.write(5)
        report = ledger.verify()
        assert (report["ok"], report["records"], report["unsealed"]) == (True, 0, 5)

    late = while_uncommitted(ledger, write_meanwhile)

    ledger.wait_sealed(6)
    assert ledger.links()[0][1] == late
    assert ledger.verify()["ok"]


def test_a_transaction_that_was_rolled_back_holds_nothing_up(crew: Server) -> None:
    ledger = Ledger(crew)

    def fail() -> None:
        ledger.write(2)
        raise LookupError

    with pytest.raises(LookupError):
        while_uncommitted(ledger, fail)

    ledger.wait_sealed(2)
    assert ledger.verify()["ok"]


def test_lag_is_measured_and_sounds_an_alarm_until_sealing_recovers(crew: Server) -> None:
    ledger = Ledger(crew)

    def write_and_wait() -> None:
        ledger.write()
        wait_for(lambda: logged(crew, "audit.seal_lag"), "the alarm")
        wait_for(lambda: seal_lag_s(crew) > 5, "the measure")
        wait_for(lambda: "behind" in str(health(crew)), "the state of health")

    while_uncommitted(ledger, write_and_wait)

    ledger.wait_sealed(2)
    wait_for(lambda: logged(crew, "audit.seal_recovered"), "the all-clear")
    wait_for(lambda: seal_lag_s(crew) == 0, "the measure")
    assert len(logged(crew, "audit.seal_lag")) <= 2  # one from each process, not one a second


def test_a_killed_database_loses_no_record_and_seals_none_twice(crew: Server) -> None:
    ledger = Ledger(crew)
    written = 0

    def write() -> bool:
        nonlocal written
        try:
            answer = ledger.client.post("/api/keys", json={"name": secrets.token_hex(4)})
        except httpx.HTTPError:
            return False
        written += answer.status_code == 201
        return answer.status_code == 201

    for _ in range(20):
        write()
    os.kill(int((crew.data_dir / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    wait_for(write, "a write after the restart")
    for _ in range(20):
        write()

    def sealed() -> bool:
        answer = ledger.client.post("/api/audit/verify", json={})
        return answer.status_code == 200 and answer.json()["data"]["unsealed"] == 0

    # Each process of the crew finds the database again by itself.
    wait_for(lambda: all(sealed() for _ in range(20)), "the seals, from every process")
    done = ledger.sql("SELECT count(*) AS n FROM audit_records WHERE tenant_id = $1 AND outcome = 'done'")
    total = ledger.sql("SELECT count(*) AS n FROM audit_records WHERE tenant_id = $1")[0]["n"]
    assert done[0]["n"] >= written
    assert (ledger.verify()["ok"], ledger.verify()["records"]) == (True, total)


def test_a_database_restored_into_a_cluster_with_younger_transactions_is_sealed_on(crew: Server) -> None:
    """Transaction ids are a cluster's own: after a dump and a restore the watermark may lie ahead of all to come."""
    ledger = Ledger(crew)
    ledger.write(2)
    ledger.wait_sealed(2)

    run_sql(crew, "UPDATE audit_watermark SET xid = '999999999999'")
    ledger.sql("UPDATE audit_records SET xid = '999999999990' WHERE tenant_id = $1")
    ledger.write(2)

    ledger.wait_sealed(4)
    assert ledger.verify()["ok"]


async def test_heads_that_were_never_published_are_published_later(crew: Server, tmp_path: Path) -> None:
    """As after a crash between the commit of a seal and the publication of its head, or on another machine."""
    ledger = await asyncio.to_thread(Ledger, crew)
    await asyncio.to_thread(ledger.write, 2)
    await asyncio.to_thread(ledger.wait_sealed, 2)
    heads = HeadsFile(tmp_path / "heads.jsonl")
    database = Database(database_url(crew), role=CORE_ROLE, size=1)

    await Sealer(SealStore(database), key=KEY, heads_file=tmp_path / "heads.jsonl", mac_key=b"key").complete()
    await database.stop()

    assert [head.seq for head in heads.list(ledger.tenant)] == [2]


class StubStore(SealStore):
    """Two records wait, of which one is forged."""

    def __init__(self, pending: list[Pending]) -> None:
        self.waiting = pending
        self.sealed: list[UUID] = []
        self.moved_to: Watermark | None = None

    def unit(self) -> Any:
        """No transaction."""
        return nullcontext()

    async def try_lock(self) -> bool:
        """Always ours."""
        return True

    async def pending(self, limit: int) -> tuple[list[Pending], Watermark | None, bool]:
        """All, at once."""
        assert limit > len(self.waiting)
        return self.waiting, Watermark(9, UUID(int=0)), False

    async def last_links(self, tenants: list[UUID]) -> dict[UUID, tuple[int, bytes]]:
        """None yet."""
        assert tenants
        return {}

    async def add(self, links: list[tuple[UUID, int, UUID, bytes]], heads: list[Head]) -> None:
        """Remember which."""
        assert heads
        self.sealed += [record_id for _, _, record_id, _ in links]

    async def move(self, watermark: Watermark) -> None:
        """Remember where to."""
        self.moved_to = watermark


async def test_a_forged_record_gets_no_seal_and_holds_nothing_up() -> None:
    """A seal under it would vouch for it wherever the MAC cannot be checked."""
    tenant, ids = UUID(int=7), [UUID(int=1), UUID(int=2), UUID(int=3)]
    bodies = [b'{"id":"%s","tenant":"%s"}' % (str(each).encode(), str(tenant).encode()) for each in ids]
    macs = [hmac.digest(b"key", body, "sha256") for body in bodies]
    genuine = Pending(tenant, ids[0], bodies[0], macs[0])
    forged = Pending(tenant, ids[1], bodies[1], b"guess")
    copied = Pending(tenant, ids[2], bodies[0], macs[0])
    store = StubStore([forged, genuine, copied])

    with captured("audit.forged_record") as logs:
        await Sealer(store, key=KEY, heads_file=None, mac_key=b"key").seal()

    assert store.sealed == [ids[0]]
    assert store.moved_to == Watermark(9, UUID(int=0))
    assert [line["event"] for line in logs] == ["audit.forged_record"] * 2
