"""One attempt at one task, as the engine sees it: a lane says what is done and what follows from it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from typing import ClassVar, Protocol
from uuid import UUID

from dragoman.services.audit.store import Line
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.engine.steps import Birth, LaneName, Step
from dragoman.services.tasks.engine.store import Claim
from dragoman.services.tasks.events import Loggable, StatusEvent
from dragoman.services.tasks.models import Task


class Attempt(ABC):
    """Work on a task under a lease. `work` is the asyncio task that does it, once the engine has begun it."""

    work: "asyncio.Task[None]"
    lane: ClassVar[LaneName]

    def __init__(self, task: Task, lease: Lease) -> None:
        self.task = task
        self.lease = lease
        # Someone has ended the task; an attempt that is stopped otherwise goes on elsewhere.
        self.cancellation = asyncio.Event()
        # The work is done, and what came of it waits to be written.
        self.over = False
        # The transition to in progress, until it is written along with something else or by itself; before it those of
        # attempts that were lost.
        self.opening: tuple[StatusEvent, ...] = ()
        # The writes of an attempt go one after another.
        self.writing = asyncio.Lock()

    @property
    @abstractmethod
    def stored(self) -> bool:
        """Whether the task is stored; until then only this process knows of it."""

    @abstractmethod
    async def perform(self) -> Step | Birth | None:
        """Do the work and return what is to be written: a step, the whole of a task that was not stored, or nothing."""

    @abstractmethod
    def unstorable(self) -> Step:
        """Return the step of a task whose outcome cannot be stored."""

    @abstractmethod
    def report(self, events: Sequence[Loggable]) -> Step:
        """Return a step that changes nothing but the log."""

    def opening_record(self) -> Line | None:
        """Return the audit record of the opening, in a lane that has one."""
        return None

    @abstractmethod
    def finished(self, outcome: Step | Birth | None, *, seq: int) -> None:
        """Take note that the outcome is written."""

    @abstractmethod
    async def after_parking(self) -> None:
        """Look again whether the ledger knows what the task asks a person for."""

    def cancel(self) -> None:
        """Stop: someone has ended the task. The work may take a moment to call off what it began elsewhere."""
        self.lease.until = inf  # no other process will run it
        if not self.cancellation.is_set():
            self.cancellation.set()
            self.work.cancel()

    def stop(self) -> None:
        """Stop: another process has the task, or may soon have it."""
        self.lease.revoked = True
        self.work.cancel()


class Lane(Protocol):
    """One kind of task: turns of conversations, or actions."""

    name: LaneName

    def take(self, claim: Claim, lease: Lease) -> Attempt:
        """Return an attempt at a task that was claimed."""
        ...

    def crowded(self) -> Sequence[tuple[UUID | None, str]]:
        """Return the actions of which so many wait here already that no more should be claimed.

        Each is that of one tenant, or of all.
        """
        ...
