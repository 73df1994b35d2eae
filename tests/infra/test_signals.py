"""Signals between processes: what they do when a connection is lost, half-open, or late to let go of its lock."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.db import Signals
from dragoman.infra.db.signals import PRESENCE
from tests.backstage import database_url
from tests.harness import Server

pytestmark = pytest.mark.anyio
HELD = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
  AND (classid::bigint << 32) | objid::bigint = hashtextextended($1, 0)"""


class Listener:
    """One process at a channel: what it sends, and what it heard."""

    def __init__(self, url: str, channel: str, *, present: str | None = None) -> None:
        self.to_send: asyncio.Queue[str] = asyncio.Queue()
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.listens = asyncio.Event()
        self._signals = Signals(url, channel, present=present, command_timeout_s=0.5, check_s=0.2)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[dict[str, asyncio.Task[object]]]:
        """Run both jobs once, each by its name."""
        jobs = self._signals.jobs(self._take, self._hear, self.listens.set)
        tasks: dict[str, asyncio.Task[object]] = {job.name: asyncio.ensure_future(job.work()) for job in jobs}
        try:
            yield tasks
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _take(self) -> Sequence[str]:
        return [await self.to_send.get()]

    def _hear(self, names: Iterable[str]) -> None:
        for name in names:
            self.heard.put_nowait(name)


class Line:
    """A socket in front of PostgreSQL's, on which bytes can be held back."""

    def __init__(self, url: str, place: Path) -> None:
        directory = re.sub(r".*[?&]host=([^&]+).*", r"\1", url)
        [self._target] = [path for path in Path(directory).glob(".s.PGSQL.*") if path.is_socket()]
        self._place = place / self._target.name
        self.url = url.replace(f"host={directory}", f"host={place}")
        self._flows = asyncio.Event()
        self._flows.set()

    def hold(self) -> None:
        """Let no byte pass, and leave the connections open."""
        self._flows.clear()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["Line"]:
        """Accept connections in here."""

        async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
            pumps.extend(asyncio.create_task(self._pump(*way)) for way in ((reader, far_writer), (far_reader, writer)))

        pumps: list[asyncio.Task[None]] = []
        server = await asyncio.start_unix_server(join, self._place)
        yield self
        server.close()
        self._flows.set()
        await asyncio.gather(*pumps)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                await self._flows.wait()
                writer.write(piece)
        writer.close()


@pytest.fixture
def url(server: Server) -> str:
    return database_url(server)


@pytest.fixture
async def sql(url: str) -> AsyncIterator[asyncpg.Connection]:
    opened = await asyncpg.connect(url)
    yield opened
    await opened.close()


@pytest.fixture
def channel() -> str:
    return f"test_{uuid4().hex[:12]}"


async def test_a_process_hears_while_an_earlier_connection_still_has_its_presence(
    url: str, channel: str, sql: asyncpg.Connection
) -> None:
    """The backend of a connection that was cut off may live on for minutes."""
    await sql.execute(PRESENCE, channel)
    listener = Listener(url, channel, present=channel)

    async with asyncio.timeout(60), listener.running():
        await listener.listens.wait()
        await sql.execute("SELECT pg_notify($1, 'one two')", channel)
        heard = [await listener.heard.get(), await listener.heard.get()]
        await sql.execute("SELECT pg_advisory_unlock_all()")
        while not await sql.fetch(HELD, channel):  # noqa: ASYNC110 - it is another's lock
            await asyncio.sleep(0.05)

    assert heard == ["one", "two"]


@pytest.mark.parametrize("job", ["signals_send", "signals_receive"])
async def test_a_job_on_a_half_open_connection_fails_and_does_not_wait_for_tcp(
    url: str, channel: str, tmp_path: Path, job: str, sql: asyncpg.Connection
) -> None:
    async with asyncio.timeout(60), Line(url, tmp_path).open() as line:
        listener = Listener(line.url, channel, present=channel)
        async with listener.running() as jobs:
            await listener.listens.wait()
            await sql.execute("SELECT pg_notify($1, 'one')", channel)
            assert await listener.heard.get() == "one"
            line.hold()
            listener.to_send.put_nowait("two")

            with pytest.raises(UpstreamUnavailable):
                await jobs[job]


async def test_a_receiver_whose_connection_is_ended_fails(url: str, channel: str, sql: asyncpg.Connection) -> None:
    listener = Listener(url, channel, present=channel)

    async with asyncio.timeout(60), listener.running() as jobs:
        while not (held := await sql.fetch(HELD, channel)):  # noqa: ASYNC110 - it is another's lock
            await asyncio.sleep(0.05)
        await sql.execute("SELECT pg_terminate_backend($1)", held[0]["pid"])

        with pytest.raises(UpstreamUnavailable):
            await jobs["signals_receive"]


async def test_a_process_hears_others_and_not_itself(url: str, channel: str) -> None:
    one, other = Listener(url, channel), Listener(url, channel)

    async with asyncio.timeout(60), one.running(), other.running():
        await asyncio.gather(one.listens.wait(), other.listens.wait())
        one.to_send.put_nowait("mine")
        heard = [await other.heard.get()]
        other.to_send.put_nowait("yours")
        heard.append(await one.heard.get())

    assert heard == ["mine", "yours"]
