"""What approvals ask of others, and whom they tell."""

from collections.abc import Iterable, Sequence
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.operations import I, O, Operation
from dragoman.services.governance.models import Breach


class Decided(Protocol):
    """Wants to hear of approvals that are no longer pending: approved, denied, withdrawn, stale or expired."""

    async def __call__(self, tenant: UUID, approval_id: str, /) -> None:
        """It is committed. What is told may be told again."""
        ...


class Sensitive(Protocol):
    """Knows which actions are sensitive."""

    async def __call__(self, caller: Caller, action: str) -> bool:
        """Whether it is; an action that nobody performs is."""
        ...


class Authors(Protocol):
    """Knows who wrote the knowledge that is proposed."""

    async def find(self, tenant: UUID, commit: str) -> frozenset[str]:
        """The authors of a proposal, by their names."""
        ...

    async def among(self, tenant: UUID, commit: str, subjects: Iterable[str]) -> list[str]:
        """Those of the subjects who wrote a part of it."""
        ...


class RulesOnActions(Protocol):
    """Knows what the tenant's policies forbid; governance does."""

    async def check_action(self, caller: Caller, action: str, *, keep: bool) -> Sequence[Breach]:
        """What the action would break; with `keep`, the decision is recorded where there was a rule to decide by."""
        ...


class Runs(Protocol):
    """Runs operations through every guard; the gate does."""

    async def run(self, operation: Operation[I, O], caller: Caller, raw: I, *, idempotency_key: str | None = None) -> O:
        """The operation's output."""
        ...
