"""What a door may ask of push notifications, and what their deliverer asks of others."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.audit.trail import Entry
from dragoman.services.push.models import NewPushConfig, PushConfig
from dragoman.services.tasks.models import Json, LoggedEvent, Task

# What a version of the protocol sends for what happened: each body with the number of the event that it covers.
Shape = Callable[[Task, Sequence[LoggedEvent]], list[tuple[int, bytes]]]


class Pushes(Protocol):
    """The service of push notifications; it says what each of these promises."""

    async def create(self, caller: Caller, ref: str, new: NewPushConfig, *, key: str | None = None) -> PushConfig:
        """Add a configuration, once for an idempotency key."""
        ...

    async def check(self, new: NewPushConfig) -> None:
        """Refuse an address early."""
        ...

    async def attach(
        self, caller: Caller, task: Task, new: NewPushConfig, *, after: int, keep: bool = False
    ) -> PushConfig:
        """Add a configuration to a task at hand."""
        ...

    async def get(self, caller: Caller, ref: str, config_id: str) -> PushConfig:
        """One configuration."""
        ...

    async def list(self, caller: Caller, ref: str, *, after: str | None, limit: int) -> list[PushConfig]:
        """Those of a task."""
        ...

    async def delete(self, caller: Caller, ref: str, config_id: str) -> None:
        """Remove one."""
        ...


class Records(Protocol):
    """The audit trail."""

    def recorded(self, caller: Caller, entry: Entry) -> AbstractAsyncContextManager[None]:
        """Commit what is written meanwhile, with its record, or neither."""
        ...


class Log(Protocol):
    """The tasks as they are stored."""

    async def find(self, tenant: UUID, ref: str) -> Task | None:
        """One task."""
        ...

    async def events(self, tenant: UUID, task_id: UUID, after: int, limit: int = 1000) -> list[LoggedEvent]:
        """What happened since."""
        ...


class PushConfigs(Protocol):
    """Stores the configurations of all tenants."""

    async def put(
        self,
        tenant: UUID,
        config: PushConfig,
        *,
        caller: Json,
        version: str,
        secret: bytes | None,
        after: int,
        most: int,
    ) -> bool:
        """Add a configuration, or replace the one of the same id; False when the task has `most` others.

        What was delivered to the one before is not delivered again. Configurations that are added at the same moment
        do not see each other, and may together be more than `most`.
        """
        ...

    async def find(self, tenant: UUID, task_id: UUID, config_id: str) -> PushConfig | None:
        """Return one of a task's configurations."""
        ...

    async def remove(self, tenant: UUID, task_id: UUID, config_id: str) -> None:
        """Remove one; nothing happens where there is none."""
        ...

    async def list(self, tenant: UUID, task_id: UUID, after: str | None, limit: int) -> list[PushConfig]:
        """Return those of a task by their ids; one more than the limit when there are more."""
        ...
