"""What a door may ask of tasks. Doors hold this and not the service, just as they hold the gate."""

from collections.abc import AsyncGenerator
from typing import Any, Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import DragomanError
from dragoman.services.tasks.models import Happening, Incoming, Json, Reply, Task, Wanted


class Tasks(Protocol):
    """The service of tasks; it says what each of these promises."""

    async def send(self, caller: Caller, incoming: Incoming) -> Task:
        """Begin a task, or go on with one that asked."""
        ...

    async def ask(self, caller: Caller, incoming: Incoming) -> Task | Reply:
        """The same, for one who can do with a message where no task is needed."""
        ...

    async def stream(self, caller: Caller, incoming: Incoming) -> Task | Reply:
        """The same, for one who follows what comes of it: the task as it began."""
        ...

    async def get(self, caller: Caller, ref: str) -> Task:
        """How a task stands."""
        ...

    async def page(self, caller: Caller, wanted: Wanted) -> tuple[list[Task], int]:
        """Some tasks, and how many there are."""
        ...

    async def cancel(self, caller: Caller, ref: str) -> Task:
        """End a task."""
        ...

    def follow(
        self, caller: Caller, task: Task, after: int, *, beat_s: float | None = None
    ) -> AsyncGenerator[Happening | None]:
        """What happens to a task."""
        ...


class Delegations(Protocol):
    """Takes actions that are handed over in a message, and what is said to their tasks later."""

    def find_arguments(self, message: Json) -> Any | None:
        """The arguments of the hand-over that a message is, or None when it is none."""
        ...

    async def submit(self, caller: Caller, arguments: Any, incoming: Incoming) -> tuple[UUID, bool]:
        """The task that it became, and whether it had become that before.

        Raises:
            DragomanError: a guard refused it, and nothing is queued.
        """
        ...

    def refuses(self, error: DragomanError) -> bool:
        """Whether the error says that the action is not taken on, and not that it was asked for wrongly."""
        ...

    async def answer(self, caller: Caller, task: Task, incoming: Incoming) -> None:
        """Go on with a task that was handed over and waits for somebody."""
        ...

    async def cancel(self, caller: Caller, task: Task) -> Task:
        """End a task that was handed over."""
        ...


class Sessions(Protocol):
    """Knows what matters when a conversation begins."""

    async def open(self, caller: Caller, said: str) -> dict[str, Any]:
        """What the first task of a new conversation carries as its session context."""
        ...
