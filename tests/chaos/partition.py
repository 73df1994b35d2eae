"""A TCP proxy in front of PostgreSQL, one for each process: the network that a test can cut."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from enum import Enum
from threading import Thread
from typing import Self, TypeVar

from tests.patience import PATIENCE_S

T = TypeVar("T")
_CHUNK = 65_536


class Link(Enum):
    """How the network between one process and PostgreSQL behaves."""

    UP = "up"
    # Connections are closed and new ones are closed at once.
    CUT = "cut"
    # Connections stay open and new ones are taken, but no byte passes; what was sent arrives when the link is up again.
    HALF_OPEN = "half_open"


class Proxy:
    """Forwards connections to an address of this machine, as long as the link is up."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._link = Link.UP
        self._flows = self._call(self._make_event())
        self._open: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._server = self._call(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def link(self) -> Link:
        """How it behaves now."""
        return self._link

    def set(self, link: Link) -> None:
        """Change the behaviour of the link at once."""
        self._call(self._set(link))

    def close(self) -> None:
        """Close the port and every connection."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a new connection to one of its own to the target."""
        self._open.add(writer)
        try:
            if self._link is Link.CUT:
                return
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            self._open.add(far_writer)
            pumps = [asyncio.create_task(self._pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
            self._pumps.update(pumps)
            await asyncio.wait(pumps)
            self._pumps.difference_update(pumps)
            self._open.discard(far_writer)
            far_writer.close()
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(_CHUNK):
                await self._flows.wait()
                writer.write(piece)
                await writer.drain()
        # A peer that was killed leaves the other side to find out, as a network does: by the end of the connection.
        await self._flows.wait()
        writer.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _make_event(self) -> asyncio.Event:
        event = asyncio.Event()
        event.set()
        return event

    async def _set(self, link: Link) -> None:
        self._link = link
        if link is Link.HALF_OPEN:
            self._flows.clear()
            return
        self._flows.set()
        if link is Link.CUT:
            for writer in list(self._open):
                writer.transport.abort()

    async def _close(self) -> None:
        self._server.close()
        await self._set(Link.CUT)
        for _ in range(100):
            if not self._open:
                break
            await asyncio.sleep(0.01)

    def _call(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
