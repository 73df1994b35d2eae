"""Many small calls as few large ones: what comes while one is under way goes into the next.

There is no timer. A call that comes alone is made at once; under load the batches grow by themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

from dragoman.errors import DragomanError, UpstreamUnavailable

_MOST = 500

W = TypeVar("W")
R = TypeVar("R")


class Grouped(Generic[W, R]):
    """Collects items and hands them on in batches, `lanes` at a time.

    A batch that fails is tried again item by item, so that one bad item fails alone.
    """

    def __init__(self, call: Callable[[Sequence[W]], Awaitable[Sequence[R]]], *, lanes: int = 2) -> None:
        self._call = call
        self._waiting: list[tuple[W, asyncio.Future[R]]] = []
        self._free = lanes
        self._running: set[asyncio.Task[None]] = set()

    async def put(self, item: W) -> R:
        """What the call gave for this item, when it is done.

        Raises:
            DragomanError: it could not be done.
        """
        return await self.begin(item)

    def begin(self, item: W) -> asyncio.Future[R]:
        """What the call will give for this item, which is handed on whoever stops waiting for it."""
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._free:
            self._free -= 1
            # With nothing of the request that happens to come first: the batch is everybody's.
            task = asyncio.create_task(self._drain(), context=Context())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return done

    async def close(self) -> None:
        """Wait until everything is done."""
        while self._running:
            await asyncio.wait(self._running)

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                await self._write(batch)
        finally:
            self._free += 1

    async def _write(self, batch: list[tuple[W, asyncio.Future[R]]]) -> None:
        try:
            results = await self._call([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - a worker loop: the error belongs to whoever waits
            if len(batch) == 1 or isinstance(error, UpstreamUnavailable):
                for _, done in batch:
                    if not done.done():
                        done.set_exception(error if isinstance(error, DragomanError) else _wrapped(error))
            else:
                for entry in batch:
                    await self._write([entry])
            return
        for (_, done), result in zip(batch, results, strict=True):
            if not done.done():
                done.set_result(result)


def _wrapped(error: Exception) -> RuntimeError:
    # One exception object must not be raised in several places: its traceback would grow with each.
    wrapped = RuntimeError(f"a batch failed: {error}")
    wrapped.__cause__ = error
    return wrapped
