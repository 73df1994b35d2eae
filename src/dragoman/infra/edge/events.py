"""Server-sent events: as fast as the reader reads, no faster, and nothing is left when it goes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from dragoman.context import current_request
from dragoman.infra.edge.edge import Receive, Send

_LOG = structlog.get_logger(__name__)

Write = Callable[[bytes], Awaitable[None]]

# A comment, by which both sides and all between them know that the stream is open.
ALIVE: Final = b": \n\n"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def pump_events(
    pump: Callable[[Write], Awaitable[None]], receive: Receive, send: Send, headers: list[tuple[bytes, bytes]]
) -> None:
    """Begin the response and let `pump` write events to it, until it returns, the client leaves or the server stops.

    A server that stops ends the response in good order: whoever wants more subscribes again, at another server.
    What it raises ends the stream and is logged: once a response has begun, only the pump could say what went wrong.
    """
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})

    async def write(event: bytes) -> None:
        await send({"type": "http.response.body", "body": event, "more_body": True})

    async def run() -> None:
        try:
            await pump(write)
        except Exception:  # noqa: BLE001 - an edge: nobody waits for this task to raise
            _LOG.exception("request.stream_failed")

    pumping, gone = asyncio.create_task(run()), asyncio.create_task(_gone(receive))
    try:
        await run_until_stopping({pumping, gone})
    finally:
        pumping.cancel()
        gone.cancel()
        await asyncio.gather(pumping, gone, return_exceptions=True)
    # A piece is written as a whole or not at all, so that the end may follow whatever was cut off.
    await send({"type": "http.response.body", "body": b""})


def event(data: bytes, number: int | None = None) -> bytes:
    """One event as it is written, with its number where it has one."""
    line = b"data: " + data + b"\n\n"
    return line if number is None else b"id: %d\n" % number + line


async def run_until_stopping(work: set[asyncio.Task[None]]) -> bool:
    """Wait until one of these is done, and say so, or until the server stops; what is not done goes on."""
    request = current_request()
    if request is None or request.stopping is None:
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        return True
    stopping = asyncio.create_task(request.stopping.wait())
    try:
        done, _ = await asyncio.wait({*work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    return bool(done & work)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
