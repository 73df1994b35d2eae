"""Who waits for what happens to a task: in this process at once, in others by a nudge.

A write never issues NOTIFY itself (that lock is held through the flush and halves the commits of a database). Each
process nudges the others right after its commits, on a connection of its own, many tasks in one message. Whoever is
nudged reads the log from where it was; a sweep every second or two covers nudges that were lost.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from uuid import UUID

_MOST_WATCHED = 10_000


class TaskNotifier:
    """Wakes those who follow a task. It carries no events: the log has them, in order, none lost."""

    def __init__(self) -> None:
        self._followers: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._tenants: dict[UUID, UUID] = {}
        self._seqs: dict[UUID, int] = {}
        self._nudges: set[UUID] = set()
        self._nudged = asyncio.Event()
        self._queued = False
        self._watchers: dict[UUID, Callable[[UUID], None]] = {}

    @contextmanager
    def follow(self, tenant: UUID, *ids: UUID) -> Generator[asyncio.Event]:
        """An event that is set when something may have happened; who follows first and reads second misses nothing.

        The ids are those of tasks, or the tenant's own: then what its lists are made of may be another.
        """
        signal = asyncio.Event()
        for task_id in ids:
            self._followers[task_id].add(signal)
            self._tenants[task_id] = tenant
        try:
            yield signal
        finally:
            for task_id in ids:
                followers = self._followers[task_id]
                followers.discard(signal)
                if not followers:
                    del self._followers[task_id], self._tenants[task_id]

    def happened(self, task_id: UUID) -> None:
        """Something was committed here: wake our own, and remember to nudge the others."""
        self.wake(task_id)
        self._nudges.add(task_id)
        self._nudged.set()

    def queued(self) -> None:
        """Something was queued: the other processes should look for work."""
        self._queued = True
        self._nudged.set()

    def wake(self, task_id: UUID) -> None:
        """Something was committed somewhere."""
        for signal in self._followers.get(task_id, ()):
            signal.set()
        if (moved := self._watchers.get(task_id)) is not None:
            moved(task_id)

    def watch(self, task_id: UUID, moved: Callable[[UUID], None]) -> None:
        """Call `moved` whenever something may have happened; the oldest watchers make room for new ones."""
        if len(self._watchers) >= _MOST_WATCHED:
            del self._watchers[next(iter(self._watchers))]
        self._watchers[task_id] = moved

    def followed(self) -> list[tuple[UUID, UUID]]:
        """Tenant and id of the tasks that somebody follows."""
        return [(self._tenants[task_id], task_id) for task_id in self._followers]

    def swept(self, seqs: dict[UUID, int]) -> None:
        """How far the logs are: wake those whose task has moved since the sweep before."""
        for task_id, seq in seqs.items():
            if self._seqs.get(task_id) != seq:
                self.wake(task_id)
        self._seqs = seqs

    def wake_all(self) -> None:
        """Something may have been missed."""
        for task_id in list(self._followers):
            self.wake(task_id)

    async def take_nudges(self) -> tuple[set[UUID], bool]:
        """Wait for something to tell others: return the tasks that changed, and whether something was queued."""
        await self._nudged.wait()
        self._nudged.clear()
        nudges, self._nudges = self._nudges, set()
        queued, self._queued = self._queued, False
        return nudges, queued
