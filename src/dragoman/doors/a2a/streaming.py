"""A task's events as server-sent events, in the frame of the binding that asked for them."""

from collections.abc import Callable
from contextlib import aclosing

import orjson
import structlog

from dragoman.doors.a2a.calls import Events
from dragoman.errors import DragomanError, Internal
from dragoman.infra.edge import ALIVE, Receive, Send, Write, event, pump_events
from dragoman.services.tasks.models import Json

_LOG = structlog.get_logger(__name__)

Frame = Callable[[Json], Json]
FrameError = Callable[[DragomanError], Json]


async def send_events(
    events: Events, receive: Receive, send: Send, headers: list[tuple[bytes, bytes]], *, frame: Frame, fail: FrameError
) -> None:
    """Send everything, until there is no more or the client leaves."""

    async def pump(write: Write) -> None:
        async with aclosing(events):
            try:
                async for told in events:
                    await write(ALIVE if told is None else event(orjson.dumps(frame(told[1])), told[0]))
            except DragomanError as error:
                await write(event(orjson.dumps(fail(error))))
            except Exception:  # noqa: BLE001 - the edge has no way to say it once the response has begun
                _LOG.exception("a2a.stream_failed")
                await write(event(orjson.dumps(fail(Internal()))))

    await pump_events(pump, receive, send, headers)
