"""What a door may ask of tasks. Doors hold this and not the service, just as they hold the gate."""

from collections.abc import AsyncGenerator
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import DragomanError
from dragoman.services.tasks.models import Incoming, LoggedEvent, Reply, Task, TaskQuery


class Tasks(Protocol):
    """The service of tasks; it says what each of these promises."""

    async def send(self, caller: Caller, incoming: Incoming) -> Task:
        """Begin a task, or go on with one that asked."""
        ...

    async def ask(self, caller: Caller, incoming: Incoming) -> Task | Reply:
        """Send a message; return a `Reply` where no task is needed."""
        ...

    async def stream(self, caller: Caller, incoming: Incoming) -> Task | Reply:
        """Send a message and return the task as it began, to be followed."""
        ...

    async def get(self, caller: Caller, ref: str) -> Task:
        """Return a task."""
        ...

    async def exists(self, caller: Caller, ref: str) -> bool:
        """Check whether a task of the tenant has this id or alias, whoever may touch it."""
        ...

    async def page(self, caller: Caller, query: TaskQuery) -> list[Task]:
        """Return a page of tasks, one more than the limit if there are more."""
        ...

    async def count(self, caller: Caller, query: TaskQuery) -> int:
        """Return how many tasks there are on all pages, up to 10,000."""
        ...

    def follow(
        self, caller: Caller, task: Task, after: int, *, keepalive_s: float | None = None
    ) -> AsyncGenerator[LoggedEvent | None]:
        """Yield what happens to a task."""
        ...


class Delegations(Protocol):
    """Takes actions that are handed over in a message, and what is said to their tasks later."""

    def takes(self, incoming: Incoming) -> bool:
        """Check whether a message hands an action over."""
        ...

    async def submit(self, caller: Caller, incoming: Incoming) -> tuple[UUID, bool]:
        """Return the id of the task, and whether it was handed over before.

        Raises:
            DragomanError: a guard refused it, and nothing is queued.
        """
        ...

    def refuses(self, error: DragomanError) -> bool:
        """Check whether an error refuses the action, rather than the way in which it was asked for."""
        ...

    async def answered(self, caller: Caller, task: Task, incoming: Incoming) -> bool:
        """Check whether this answer was taken before, under the idempotency key that it has.

        Raises:
            DragomanError: the caller may not answer, or the key was used with another answer.
        """
        ...

    async def answer(self, caller: Caller, task: Task, incoming: Incoming) -> None:
        """Go on with a task that was handed over and waits for somebody."""
        ...


class Refusals(Protocol):
    """Keeps on record what was refused of a message."""

    async def record(self, caller: Caller, ref: str, error: DragomanError) -> None:
        """Record that a message to this task was refused, and why."""
        ...
