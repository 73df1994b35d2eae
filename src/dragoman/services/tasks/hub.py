"""Who waits for what happens to a task: in this process at once, in others by a nudge.

A write never issues NOTIFY itself (that lock is held through the flush and halves the commits of a database). Each
process nudges the others right after its commits, on a connection of its own, many tasks in one message. Whoever is
nudged reads the log from where it was; a sweep every second or two covers nudges that were lost.
"""

import asyncio
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from uuid import UUID


class Hub:
    """Wakes those who follow a task. It carries no events: the log has them, in order, none lost."""

    def __init__(self) -> None:
        self._followers: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._nudges: set[UUID] = set()
        self._nudged = asyncio.Event()

    @contextmanager
    def follow(self, task_id: UUID) -> Generator[asyncio.Event]:
        """An event that is set when something may have happened; who follows first and reads second misses nothing."""
        signal = asyncio.Event()
        self._followers[task_id].add(signal)
        try:
            yield signal
        finally:
            followers = self._followers[task_id]
            followers.discard(signal)
            if not followers:
                del self._followers[task_id]

    def happened(self, task_id: UUID) -> None:
        """Something was committed here: wake our own, and remember to nudge the others."""
        self.wake(task_id)
        self._nudges.add(task_id)
        self._nudged.set()

    def wake(self, task_id: UUID) -> None:
        """Something was committed somewhere."""
        for signal in self._followers.get(task_id, ()):
            signal.set()

    def wake_all(self) -> None:
        """Something may have been missed."""
        for task_id in list(self._followers):
            self.wake(task_id)

    async def take_nudges(self) -> set[UUID]:
        """The tasks that others should be told of, when there are any."""
        await self._nudged.wait()
        self._nudged.clear()
        nudges, self._nudges = self._nudges, set()
        return nudges
