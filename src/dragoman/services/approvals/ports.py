"""What approvals ask of others, and whom they tell."""

from typing import Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.operations import I, O, Operation


class Decided(Protocol):
    """Wants to hear of approvals that are no longer pending: approved, denied, withdrawn, stale or expired."""

    async def __call__(self, tenant: UUID, approval_id: UUID) -> None:
        """It is committed. A process that dies may not tell: whoever must know looks for themselves now and then."""
        ...


class Sensitive(Protocol):
    """Knows which actions are sensitive."""

    async def __call__(self, caller: Caller, action: str) -> bool:
        """Whether it is; an action that nobody performs is."""
        ...


class Runs(Protocol):
    """Runs operations through every guard; the gate does."""

    async def run(
        self, operation: Operation[I, O], caller: Caller, given: I, *, idempotency_key: str | None = None
    ) -> O:
        """The operation's output."""
        ...
