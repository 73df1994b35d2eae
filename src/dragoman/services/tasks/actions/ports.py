"""What delegated tasks ask of others: who can do it, and whether it may be done."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.tasks.actions.actors import Acting
from dragoman.services.tasks.actions.envelope import Envelope, Resource
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
        """Return the worker that may perform the action; None when there is none."""
        ...


class Phase(StrEnum):
    """When a task is judged: the stricter judgment wins, since it must pass both."""

    SUBMISSION = "submission"
    EXECUTION = "execution"


@dataclass(frozen=True, slots=True)
class Judgment:
    """That it may be done, or on whom it waits.

    `snapshot` is kept with the task and its result: policies with their versions, approvals with who decided.
    `resource` is the resource as it was approved, with its version and its hash; `asked` is what the deciders that the
    task waits for must see.
    """

    snapshot: Json = field(default_factory=dict[str, Any])
    waits_for: tuple[str, ...] = ()
    resource: Resource | None = None
    asked: tuple[Json, ...] = ()


class Governance(Protocol):
    """Decides whether an action may be done."""

    async def judge(
        self,
        caller: Caller,
        envelope: Envelope,
        capability: Capability,
        *,
        acting: Acting | None,
        task_id: UUID | None,
        phase: Phase,
    ) -> Judgment:
        """Hold the action against the policies in force and the approvals it names.

        A person for whom it is done under a grant is a party, like who does it. The snapshot says for whom it is done.

        At execution the approvals are used up by the task; a task that used one before may go on with it.

        Raises:
            GovernanceContextRequired: policies or approvals are missing; the details say which, and how to get them.
            DragomanError: a policy forbids it, or an approval is for something else, used, expired, denied or stale.
        """
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """An action on a resource; `task_id` is the task whose own changes to the resource do not count as moves."""

    action: str
    resource: Resource
    input: Json
    sensitive: bool
    task_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A resource as it is now: its version, the SHA-256 of its content, and further facts that consent is bound to."""

    version: str | None = None
    sha256: str | None = None
    facts: Json = field(default_factory=dict[str, Any])

    def of(self, resource: Resource) -> Resource:
        """Return the resource with the version and the hash that are known of it."""
        known = {"version": self.version or resource.version, "sha256": self.sha256 or resource.sha256}
        return resource.model_copy(update=known)


class ResourceCheck(Protocol):
    """Knows one kind of resource; each vertical has its own."""

    def covers(self, target: Target) -> bool:
        """Check whether the target is of this kind."""
        ...

    async def bind(self, caller: Caller, target: Target) -> Bound:
        """Return the resource as it is now.

        Raises:
            ResourceMoved: its version or its content differs from what the target names.
            DragomanError: it does not exist, or does not take the action.
        """
        ...

    async def show(self, caller: Caller, target: Target, *, since: str | None) -> Json:
        """Return what a person must see of the bound resource; `since` is the version that was approved last."""
        ...


class Resources(Protocol):
    """Knows all resources."""

    async def bind(self, caller: Caller, target: Target) -> Bound:
        """Return the resource as it is now; nothing is known of a resource of an unknown type.

        Raises:
            ResourceMoved: its version or its content differs from what the target names.
            DragomanError: it does not exist, or does not take the action.
        """
        ...

    async def show(self, caller: Caller, target: Target, *, since: str | None) -> Json:
        """Return what a person must see of the bound resource; `since` is the version that was approved last."""
        ...
