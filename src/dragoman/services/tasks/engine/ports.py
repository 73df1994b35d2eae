"""What the ledger of effects asks of its store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from dragoman.services.tasks.models import Json


@dataclass(frozen=True, slots=True)
class Intent:
    """That an attempt at a task means to do something outside, which takes at most `within_s`."""

    tenant: UUID
    task: UUID
    canonical: UUID
    step: str
    digest: bytes
    attempt: int
    worker: UUID
    within_s: float


@dataclass(frozen=True, slots=True)
class Entered:
    """How an intent was found. Without an outcome it is fresh, or only the other side can know.

    An earlier attempt may still be at it for `busy_s`; `present` says that its process is there.
    """

    outcome: Json | None
    fresh: bool
    present: bool = False
    busy_s: float = 0.0


class LedgerStore(Protocol):
    """Stores intents and outcomes of all tenants."""

    async def intend(self, intents: Sequence[Intent]) -> list[Entered | None]:
        """Write intents down; None for an attempt that does not have its task. No two may be of the same effect.

        Of attempts that mean to do the same at the same time, one is told `fresh`.
        """
        ...

    async def take(self, intent: Intent) -> None:
        """Write down that this attempt goes on with what an earlier one began."""
        ...

    async def settle(self, outcomes: Sequence[tuple[Intent, Json]]) -> list[None]:
        """Write outcomes down; the first of an effect stays."""
        ...

    async def withdraw(self, intent: Intent) -> None:
        """Remove the intent of this attempt, unless another attempt took it or it has an outcome."""
        ...

    async def is_settled(self, tenant: UUID, canonical: UUID, step: str) -> bool:
        """Check whether a step of a task has an outcome, for every request that it was begun with."""
        ...

    async def abandon(self, intent: Intent) -> None:
        """Write down that this attempt will not go on with it, whatever came of it."""
        ...
