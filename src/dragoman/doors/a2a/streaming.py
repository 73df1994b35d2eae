"""Server-sent events: as fast as the reader reads, no faster, and nothing is left when it goes."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import orjson
import structlog

from dragoman.doors.a2a.calls import Events
from dragoman.errors import DragomanError, Internal
from dragoman.infra.edge import Receive, Send
from dragoman.services.tasks.models import Json

_LOG = structlog.get_logger(__name__)
_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_ALIVE: Final = b": \n\n"

Frame = Callable[[Json], Json]
FrameError = Callable[[DragomanError], Json]


async def send_events(
    events: Events, receive: Receive, send: Send, headers: list[tuple[bytes, bytes]], *, frame: Frame, fail: FrameError
) -> None:
    """Send everything, until there is no more or the client leaves."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})
    pump = asyncio.create_task(_pump(events, send, frame, fail))
    gone = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        pump.cancel()
        gone.cancel()
        await asyncio.gather(pump, gone, return_exceptions=True)


async def _pump(events: Events, send: Send, frame: Frame, fail: FrameError) -> None:
    async with aclosing(events):
        try:
            async for event in events:
                body = _ALIVE if event is None else _event(event[0], frame(event[1]))
                await send({"type": "http.response.body", "body": body, "more_body": True})
        except DragomanError as error:
            await send({"type": "http.response.body", "body": _event(None, fail(error)), "more_body": True})
        except Exception:  # noqa: BLE001 - the edge has no way to say it once the response has begun
            _LOG.exception("a2a.stream_failed")
            await send({"type": "http.response.body", "body": _event(None, fail(Internal())), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(seq: int | None, data: Json) -> bytes:
    line = b"data: " + orjson.dumps(data) + b"\n\n"
    return line if seq is None else b"id: %d\n" % seq + line
