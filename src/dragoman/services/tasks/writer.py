"""Many small writes as few large ones: what comes while a commit is under way goes into the next.

There is no timer. A write that comes alone is committed at once; under load the batches grow by themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar
from uuid import UUID

from dragoman.errors import DragomanError, UpstreamUnavailable
from dragoman.services.tasks.store import Birth, Change, CoreStore

_MOST = 500

W = TypeVar("W")
R = TypeVar("R")


class Grouped(Generic[W, R]):
    """Collects items and hands them on in batches, `lanes` at a time.

    A batch that fails is tried again item by item, so that one bad item fails alone.
    """

    def __init__(self, commit: Callable[[Sequence[W]], Awaitable[Sequence[R]]], *, lanes: int = 2) -> None:
        self._commit = commit
        self._waiting: list[tuple[W, asyncio.Future[R]]] = []
        self._free = lanes
        self._running: set[asyncio.Task[None]] = set()

    async def put(self, item: W) -> R:
        """Returns when the item is committed.

        Raises:
            DragomanError: it could not be.
        """
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._free:
            self._free -= 1
            task = asyncio.create_task(self._drain())
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return await done

    async def close(self) -> None:
        """Wait until everything is written."""
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
            results = await self._commit([item for item, _ in batch])
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
    wrapped = RuntimeError(f"writing a task failed: {error}")
    wrapped.__cause__ = error
    return wrapped


class TaskWriter:
    """Adds and changes tasks, in batches."""

    def __init__(self, store: CoreStore) -> None:
        self._store = store
        self._births: Grouped[Birth, None] = Grouped(self._add)
        # One lane: two batches that change the same task would wait for each other's locks.
        self._changes: Grouped[Change, int | None] = Grouped(self._change, lanes=1)

    async def add(self, birth: Birth) -> None:
        """A new task, durable when this returns."""
        await self._births.put(birth)

    async def change(self, change: Change) -> int | None:
        """What happened to a task, durable when this returns: its last event number, None when it was fenced off."""
        return await self._changes.put(change)

    async def close(self) -> None:
        """Wait until everything is written."""
        await self._births.close()
        await self._changes.close()

    async def _add(self, births: Sequence[Birth]) -> Sequence[None]:
        await self._store.add(births)
        return [None] * len(births)

    async def _change(self, changes: Sequence[Change]) -> Sequence[int | None]:
        # One statement changes a row once: what comes for the same task in one batch goes in turns.
        results: dict[int, int | None] = {}
        left = list(enumerate(changes))
        while left:
            turn: dict[UUID, tuple[int, Change]] = {}
            for place, change in left:
                turn.setdefault(change.id, (place, change))
            left = [(place, change) for place, change in left if turn[change.id][0] != place]
            seqs = await self._store.change([change for _, change in turn.values()])
            for task_id, (place, _) in turn.items():
                results[place] = seqs.get(task_id)
        return [results[place] for place in range(len(changes))]
