"""What delegated tasks ask of others: who can do it, and whether it may be done."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.workers.protocol import Capability, Json, Worker


@dataclass(frozen=True, slots=True)
class Route:
    """Who performs an action for a tenant; a `shared` worker performs it for all."""

    worker: Worker
    capability: Capability
    shared: bool = True


class Registry(Protocol):
    """Which worker a tenant lets perform which action."""

    async def find(self, caller: Caller, action: str) -> Route | None:
        """The worker that is allowed to, or None: nobody can, or nobody may."""
        ...


class Phase(StrEnum):
    """When a task is judged: the stricter judgment wins, since it must pass both."""

    SUBMISSION = "submission"
    EXECUTION = "execution"


@dataclass(frozen=True, slots=True)
class Judgment:
    """That it may be done, or on whom it waits.

    `snapshot` is kept with the task and its result: policies with their versions, approvals with who decided.
    """

    snapshot: Json = field(default_factory=dict[str, Any])
    waits_for: tuple[str, ...] = ()


class Governance(Protocol):
    """Decides whether an action may be done."""

    async def judge(
        self, caller: Caller, envelope: Envelope, capability: Capability, *, task_id: UUID | None, phase: Phase
    ) -> Judgment:
        """Hold the action against the policies in force and the approvals it names.

        At execution the approvals are used up by the task; a task that used one before may go on with it.

        Raises:
            GovernanceContextRequired: policies or approvals are missing; the details say which, and how to get them.
            DragomanError: a policy forbids it, or an approval is for something else, used, expired, denied or stale.
        """
        ...


class Documents(Protocol):
    """Knows whether what an envelope acts on is there."""

    async def check(self, caller: Caller, envelope: Envelope, capability: Capability) -> None:
        """Hold the resource of the envelope against what is stored.

        Raises:
            DragomanError: it is not there, or its version or its content is another.
        """
        ...
