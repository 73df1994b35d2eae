"""Wake those who follow a task: in this process at once, in others by a notification.

A write never issues NOTIFY itself (that lock is held through the flush and halves the commits of a database). Each
process notifies the others right after its commits, on a connection of its own, many tasks in one message. A follower
then reads the log from where it was; a sweep every second covers notifications that were lost.
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
        self._changed: set[UUID] = set()
        self._notify = asyncio.Event()
        self._queued = False
        self._watchers: dict[UUID, Callable[[UUID], None]] = {}

    @contextmanager
    def follow(self, tenant: UUID, *ids: UUID) -> Generator[asyncio.Event]:
        """Yield an event that is set when something may have happened; follow first and read second to miss nothing.

        The ids are those of tasks, or the tenant's own: then a list of its tasks may have changed.
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
        """Wake the followers in this process, and notify the others: something was committed here."""
        self.wake(task_id)
        self._changed.add(task_id)
        self._notify.set()

    def queued(self) -> None:
        """Have the other processes look for work: something was queued."""
        self._queued = True
        self._notify.set()

    def wake(self, task_id: UUID) -> None:
        """Wake the followers of a task in this process."""
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
        """Return tenant and id of the tasks that are followed."""
        return [(self._tenants[task_id], task_id) for task_id in self._followers]

    def compare_seqs(self, seqs: dict[UUID, int]) -> None:
        """Wake the followers of tasks whose log has grown since the last sweep."""
        for task_id, seq in seqs.items():
            if self._seqs.get(task_id) != seq:
                self.wake(task_id)
        self._seqs = seqs

    def wake_all(self) -> None:
        """Wake all followers: a notification may have been lost."""
        for task_id in list(self._followers):
            self.wake(task_id)

    async def take_notifications(self) -> tuple[set[UUID], bool]:
        """Wait for something to tell others: return the tasks that changed, and whether something was queued."""
        await self._notify.wait()
        self._notify.clear()
        changed, self._changed = self._changed, set()
        queued, self._queued = self._queued, False
        return changed, queued
