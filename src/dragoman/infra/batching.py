"""Many small calls as few large ones: what comes while one is under way goes into the next.

There is no timer. A call that comes alone is made at once; under load the batches grow by themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

from dragoman.errors import DragomanError, UpstreamUnavailable
from dragoman.infra.db import Contended

_MOST = 500

W = TypeVar("W")
R = TypeVar("R")


class Batcher(Generic[W, R]):
    """Collects items and hands them on in batches, `lanes` at a time.

    A batch that fails is tried again item by item, so that one bad item fails alone; not while the database is away.
    Items with the same `key` are never in one batch, nor in two that are under way: they go one after another.
    """

    def __init__(
        self,
        call: Callable[[Sequence[W]], Awaitable[Sequence[R]]],
        *,
        lanes: int = 2,
        key: Callable[[W], Hashable | None] | None = None,
    ) -> None:
        self._call = call
        self._key = key
        self._busy: set[Hashable] = set()
        self._waiting: list[tuple[W, asyncio.Future[R]]] = []
        self._free = lanes
        self._running: set[asyncio.Task[None]] = set()

    async def put(self, item: W) -> R:
        """Return what the call gave for this item, when it is done.

        Raises:
            DragomanError: it could not be done.
        """
        return await self.begin(item)

    def begin(self, item: W) -> asyncio.Future[R]:
        """Return a future of what the call gives for this item; the item is handed on even if its caller is gone."""
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        self._drain_more()
        return done

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._waiting and not self._running

    async def close(self) -> None:
        """Wait until everything is done."""
        while self._running:
            await asyncio.wait(self._running)

    def _drain_more(self) -> None:
        if self._free and self._waiting:
            self._free -= 1
            # With nothing of the request that happens to come first: the batch is shared.
            task = asyncio.create_task(self._drain(), context=Context())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _drain(self) -> None:
        try:
            while batch := self._take():
                try:
                    await self._write(batch)
                finally:
                    self._let_go(batch)
        finally:
            self._free += 1

    def _take(self) -> list[tuple[W, asyncio.Future[R]]]:
        if self._key is None:
            batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            return batch
        batch, left = list[tuple[W, asyncio.Future[R]]](), list[tuple[W, asyncio.Future[R]]]()
        for entry in self._waiting:
            key = self._key(entry[0])
            if len(batch) >= _MOST or (key is not None and key in self._busy):
                left.append(entry)
            else:
                if key is not None:
                    self._busy.add(key)
                batch.append(entry)
        self._waiting = left
        return batch

    def _let_go(self, batch: Sequence[tuple[W, asyncio.Future[R]]]) -> None:
        if self._key is not None:
            self._busy.difference_update(self._key(item) for item, _ in batch)

    async def _write(self, batch: list[tuple[W, asyncio.Future[R]]]) -> None:
        try:
            results = await self._call([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - a worker loop: the error belongs to those who wait
            away = isinstance(error, UpstreamUnavailable) and not isinstance(error, Contended)
            if len(batch) == 1 or away:
                for _, done in batch:
                    _fail(done, error)
            else:
                for entry in batch:
                    await self._write([entry])
            return
        for (_, done), result in zip(batch, results, strict=True):
            if not done.done():
                done.set_result(result)


def _fail(done: asyncio.Future[R], error: Exception) -> None:
    if done.done():
        return
    if not isinstance(error, DragomanError):
        # One exception object must not be raised in several places: its traceback would grow with each.
        wrapped = RuntimeError(f"a batch failed: {error}")
        wrapped.__cause__ = error
        error = wrapped
    done.set_exception(error)
    done.exception()  # seen: a caller that is gone is not asked about it
