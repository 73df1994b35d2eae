"""Queues on PostgreSQL that others wrote, with jobs that do nothing: a backlog is put in, then one worker takes it."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Some of them have no types.

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Final

import asyncpg
import procrastinate
from dbos import DBOS
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode
from procrastinate.types import JSONDict

_DBOS_POLL_S = 0.05
# Put in one by one, they take longer than all the rest.
DBOS_SHARE: Final = 10


async def procrastinate_jobs(url: str, number: int) -> float:
    """Jobs in a second, by the worker with its default of listening and ten at a time."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="nothing")
    async def nothing(number: int) -> None:
        del number

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        jobs: list[JSONDict] = [{"number": place} for place in range(number)]
        await nothing.batch_defer_async(*jobs)
        began = perf_counter()
        await app.run_worker_async(concurrency=10, wait=False, install_signal_handlers=False)
        return number / (perf_counter() - began)


async def pgqueuer_jobs(url: str, number: int) -> float:
    """Jobs in a second, in batches of 100, until the queue is empty."""
    connection: Any = await asyncpg.connect(url)
    try:
        driver = AsyncpgDriver(connection)
        queries, worker = Queries(driver), PgQueuer(driver)
        await queries.install()

        @worker.entrypoint("nothing")
        async def nothing(job: Job) -> None:
            del job

        await queries.enqueue(["nothing"] * number, [None] * number, [0] * number)
        began = perf_counter()
        await worker.run(batch_size=100, mode=QueueExecutionMode.drain)
        return number / (perf_counter() - began)
    finally:
        await connection.close()


async def dbos_jobs(url: str, number: int) -> float:
    """Workflows in a second, fifty at a time; from the first that is put in, since they cannot be held back."""
    return await asyncio.to_thread(_dbos_jobs, url, number // DBOS_SHARE)


def _dbos_jobs(url: str, number: int) -> float:
    logging.getLogger("dbos").setLevel(logging.ERROR)
    DBOS(config={"name": "bench", "system_database_url": url, "console_log_level": "ERROR"})

    @DBOS.workflow()
    def nothing(number: int) -> int:
        return number

    DBOS.launch()
    queue = DBOS.register_queue("nothing", concurrency=50, polling_interval_sec=_DBOS_POLL_S)
    try:
        began = perf_counter()
        for handle in [queue.enqueue(nothing, place) for place in range(number)]:
            handle.get_result()
        return number / (perf_counter() - began)
    finally:
        DBOS.destroy()


QUEUES: Final[dict[str, Callable[[str, int], Awaitable[float]]]] = {
    "procrastinate": procrastinate_jobs,
    "pgqueuer": pgqueuer_jobs,
    "dbos": dbos_jobs,
}
