"""What approvals ask of others, and whom they tell."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.infra.db import Scope
from dragoman.operations import I, O, Operation
from dragoman.services.approvals.records import NewApproval, NewDecision, Record, Wanted
from dragoman.services.governance.models import Breach, CheckedContext
from dragoman.services.governance.ports import PolicyBook


class Decided(Protocol):
    """Wants to hear of approvals that are no longer pending: approved, denied, withdrawn, stale or expired."""

    async def __call__(self, tenant: UUID, approval_id: str, /) -> None:
        """It is committed. What is told may be told again."""
        ...


class Spoils(Protocol):
    """Ends approvals whose resource has moved."""

    async def __call__(self, tenant: UUID, approval_ids: Sequence[UUID], because: str) -> None:
        """Make those that are open stale, in a transaction of its own, and tell who waits for them."""
        ...


class Asking(Protocol):
    """Shows an approval to who must decide it."""

    async def __call__(self, caller: Caller, row: Record) -> Record:
        """Return what a decider must see, as data of a message."""
        ...


class Authors(Protocol):
    """Knows who wrote the knowledge that is proposed."""

    async def find(self, tenant: UUID, commit: str) -> frozenset[str]:
        """The authors of a proposal, by their names."""
        ...

    async def among(self, tenant: UUID, commit: str, subjects: Iterable[str]) -> list[str]:
        """Those of the subjects who wrote a part of it."""
        ...


class Makers(Protocol):
    """Knows who made the API keys of programs; tenancy does."""

    async def find_makers(self, scope: Scope, subjects: Iterable[str]) -> frozenset[str]:
        """Who made the keys of these subjects, and the keys of those who did."""
        ...


class RulesOnActions(Protocol):
    """Knows what the tenant's policies forbid; governance does."""

    async def check_action(
        self, caller: Caller, book: PolicyBook, context: CheckedContext, *, keep: bool
    ) -> Sequence[Breach]:
        """What the action of a context would break; with `keep`, the decision is recorded."""
        ...


class Runs(Protocol):
    """Runs operations through every guard; the gate does."""

    async def run(self, operation: Operation[I, O], caller: Caller, raw: I, *, idempotency_key: str | None = None) -> O:
        """The operation's output."""
        ...


class Approvals(Protocol):
    """Stores the approvals of all tenants; a scope sees those of its own tenant."""

    async def add(self, scope: Scope, new: NewApproval) -> None:
        """Store a request.

        Raises:
            UniqueViolated: the tenant has an approval with this id.
        """
        ...

    async def find(self, scope: Scope, approval_id: UUID, *, lock: bool = False) -> Record | None:
        """Return an approval with its decisions; with `lock`, nothing else changes it until the unit of work ends."""
        ...

    async def find_all(self, scope: Scope, approval_ids: Sequence[UUID], *, lock: bool = False) -> list[Record]:
        """Return those of them that there are, in the order of their ids."""
        ...

    async def list_page(self, scope: Scope, wanted: Wanted) -> list[Record]:
        """Return some without input, parties and decisions, newest first."""
        ...

    async def decide(self, scope: Scope, approval_id: UUID, decision: NewDecision, state: str | None) -> None:
        """Store a decision, and the state that follows from it, if any. Lock the approval first.

        Raises:
            UniqueViolated: the decider has decided before.
        """
        ...

    async def withdraw(self, scope: Scope, approval_id: UUID, because: str | None) -> None:
        """Take an open approval back. Lock it first."""
        ...

    async def approved_version(self, scope: Scope, resource: Record, before: UUID) -> str | None:
        """Return the version of a resource that the last approval before this one was for."""
        ...

    async def consume(self, scope: Scope, approval_ids: Sequence[UUID], by: str) -> int:
        """Use up those that are approved and not expired; return how many that were. Lock them first."""
        ...


class Units(Protocol):
    """Units of work; the database has them."""

    def unit(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Make one transaction of what the block does in this scope; a unit inside a unit joins it."""
        ...

    async def after_commit(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call back once the open unit is committed, and not if it is rolled back; at once when there is none."""
        ...
