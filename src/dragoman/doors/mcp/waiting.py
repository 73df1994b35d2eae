"""The waits of calls for their tasks, which end early when the server stops."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from dragoman.doors.mcp.wire import Json, failed
from dragoman.errors import DragomanError, UpstreamUnavailable
from dragoman.services.tasks.models import Task

# What is about to end may end here: shorter than the shortest drain, and longer than a turn stays unstored.
_GRACE_S: Final = 0.5


class ServerStops(UpstreamUnavailable):
    """The server stops before the task of a call has ended; a stored task goes on in another process."""

    def __init__(self, task: Task | None = None) -> None:
        super().__init__("this server", retry_after_s=1)
        self.task = task


class Waits:
    """The calls of this process that wait for a task."""

    def __init__(self) -> None:
        self._open: set[asyncio.Timeout] = set()
        self._closing = False

    def close(self) -> None:
        """Have every wait end soon, those that begin later too."""
        if self._closing:
            return
        self._closing = True
        for limit in self._open:
            limit.reschedule(_soon())

    @asynccontextmanager
    async def wait(self) -> AsyncGenerator[None]:
        """Let the body wait for as long as it takes, unless the server stops.

        Raises:
            ServerStops: it does; the body was cancelled.
        """
        limit = asyncio.timeout_at(_soon() if self._closing else None)
        try:
            async with limit:
                self._open.add(limit)
                try:
                    yield
                finally:
                    self._open.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ServerStops from None


def failed_call(error: DragomanError) -> Json:
    """The result of a call that failed; where the server stops, with the task to come back to."""
    result = failed(error)
    if isinstance(error, ServerStops) and error.task is not None:
        result["structuredContent"] |= {"task_id": str(error.task.id), "state": error.task.state.value}
        hint = f"The task goes on: read the resource dragoman://task/{error.task.id} for its result."
        result["content"].append({"type": "text", "text": hint})
    return result


def _soon() -> float:
    return asyncio.get_running_loop().time() + _GRACE_S
