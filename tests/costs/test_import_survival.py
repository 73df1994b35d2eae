"""Imports that are killed or cancelled in the middle: what was shown stays, and what is done is not done again."""

import asyncio
import shutil
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from tests.backstage import database_url, sql
from tests.costs.exports import OVER, add_account, begin_import, ended, imported, row, sums_of, totals, written
from tests.doors.rest.calling import data
from tests.harness import InProcess, Process, Server, data_dir, wait_for

pytestmark = pytest.mark.req("GW-005")
PERIODS = ("2026-08-01", "2026-09-01")


def export(billed: str) -> bytes:
    """Two billing periods of four rows each."""
    return written([row(n, BillingPeriodStart=PERIODS[n % 2], BilledCost=billed) for n in range(8)])


def current(server: Server, account: str) -> dict[str, UUID]:
    """The slices that are shown, by period."""
    statement = "SELECT period::text, id FROM cost_slices WHERE account_id = $1 AND state = 'current'"
    return dict(map(tuple, sql(server, statement, UUID(account))))


def billed(server: Server, account: str) -> dict[str, str]:
    """What is shown, by period."""
    statement = """
        SELECT s.period::text, sum(t.billed)::text FROM cost_totals_daily t JOIN cost_slices s ON s.id = t.slice_id
        WHERE s.account_id = $1 AND s.state = 'current' GROUP BY 1"""
    return dict(map(tuple, sql(server, statement, UUID(account))))


@contextmanager
def held(server: Server, slice_id: UUID) -> Generator[None]:
    """Nobody can replace this slice meanwhile."""
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(database_url(server)))
    try:
        transaction = connection.transaction()
        loop.run_until_complete(transaction.start())
        statement = "SELECT 1 FROM cost_slices WHERE id = $1 FOR UPDATE"
        loop.run_until_complete(connection.execute(statement, slice_id))
        yield
        loop.run_until_complete(transaction.rollback())
    finally:
        loop.run_until_complete(connection.close())
        loop.close()


@contextmanager
def half_imported(server: Server, http: httpx.Client, account: str, content: bytes) -> Generator[dict[str, Any]]:
    """An import that has shown its first period and waits before its second."""
    before = current(server, account)
    with held(server, before[PERIODS[1]]):
        begun = begin_import(http, account, content)
        wait_for(lambda: current(server, account)[PERIODS[0]] != before[PERIODS[0]], "the first period")
        yield begun


@pytest.fixture
def place() -> Iterator[Path]:
    """A data directory that outlives its server."""
    path = data_dir()
    yield path
    shutil.rmtree(path.parent, ignore_errors=True)


def test_an_import_that_was_killed_goes_on_after_the_periods_that_are_done(place: Path) -> None:
    first = Process(at=place).start()
    with first.client(first.token()) as http:
        account = add_account(http)
        imported(http, account, export("1"))
        with half_imported(first, http, account, export("2")) as begun:
            done = current(first, account)
            first.stop(signal.SIGKILL)

    assert billed(first, account) == {PERIODS[0]: "8", PERIODS[1]: "4"}
    with Process(at=place) as second, second.client(second.token()) as http:
        report = ended(http, begun)

        assert report["state"] == "done"
        assert sums_of(report) == totals(export("2"))
        assert billed(second, account) == {PERIODS[0]: "8", PERIODS[1]: "8"}
        assert current(second, account)[PERIODS[0]] == done[PERIODS[0]]
        assert data(http.get(f"/api/tasks/{begun['task_id']}"))["attempt"] > 1


def test_a_cancelled_import_leaves_what_was_shown_of_the_period_that_it_was_at() -> None:
    with InProcess() as server, server.client(server.token()) as http:
        account = add_account(http)
        imported(http, account, export("1"))
        with half_imported(server, http, account, export("2")) as begun:
            data(http.post(f"/api/tasks/{begun['task_id']}/cancel", json={}))
            wait_for(lambda: data(http.get(f"/api/tasks/{begun['task_id']}"))["state"] in OVER, "the end")
        place = f"/api/cost-imports/{begun['import_id']}"
        report = wait_for(lambda: (now := data(http.get(place)))["state"] == "cancelled" and now, "the report")

        assert report["totals"] == []
        assert billed(server, account) == {PERIODS[0]: "8", PERIODS[1]: "4"}
        loading = "SELECT count(*) FROM cost_slices WHERE account_id = $1 AND state = 'loading'"
        wait_for(lambda: sql(server, loading, UUID(account))[0][0] == 0, "the slice to be given up")
        again = imported(http, account, export("2"))
        assert [period["unchanged"] for period in again["periods"]] == [True, False]
