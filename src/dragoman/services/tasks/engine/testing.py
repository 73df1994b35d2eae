"""The store of the effect ledger in memory, for tests of its rules: `EffectStore` passes the same contract tests.

store = InMemoryEffectStore()
store.lease(task_id, worker, attempt=1)
ledger = Ledger(store)
"""

import asyncio
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from time import monotonic
from typing import TypeAlias
from uuid import UUID

from dragoman.errors import UpstreamUnavailable
from dragoman.services.tasks.engine.ports import Entered, Intent
from dragoman.services.tasks.models import Json

_Key: TypeAlias = tuple[UUID, UUID, str, bytes]


@dataclass(slots=True)
class _Effect:
    attempt: int
    worker: UUID
    may_act_until: float
    outcome: Json | None = None

    def is_of(self, intent: Intent) -> bool:
        return (self.attempt, self.worker) == (intent.attempt, intent.worker)


class InMemoryEffectStore:
    """Implements `LedgerStore`. `now` is its clock, in seconds; `lease_s` is how long a process may act unseen.

    `lease` says which attempt has a task; `present` are the workers whose processes are there. The next `failures`
    calls fail as they do while PostgreSQL is away.
    """

    def __init__(self, *, now: Callable[[], float] = monotonic, lease_s: float = 0.0) -> None:
        self._now = now
        self._lease_s = lease_s
        self._effects: dict[_Key, _Effect] = {}
        self._leases: dict[UUID, tuple[UUID, int]] = {}
        self._due: dict[UUID, float] = {}
        self.present: set[UUID] = set()
        self.failures = 0

    def lease(self, task: UUID, worker: UUID, *, attempt: int) -> None:
        """Give a task to an attempt; the one that had it before has it no longer."""
        self._leases[task] = (worker, attempt)
        self._due[task] = self._now()

    async def intend(self, intents: Sequence[Intent]) -> list[Entered | None]:
        """Write intents down; None for an attempt that does not have its task."""
        await self._reach()
        return [self._intend(intent) for intent in intents]

    async def take(self, intent: Intent) -> None:
        """Write down that this attempt goes on with what an earlier one began."""
        await self._reach()
        if (effect := self._find_open(intent)) is not None:
            effect.attempt, effect.worker = intent.attempt, intent.worker
            effect.may_act_until = self._now() + intent.within_s

    async def settle(self, outcomes: Sequence[tuple[Intent, Json]]) -> list[None]:
        """Write outcomes down; the first of an effect stays."""
        await self._reach()
        for intent, outcome in outcomes:
            if (effect := self._find_open(intent)) is not None:
                effect.outcome = deepcopy(outcome)
        return [None] * len(outcomes)

    async def withdraw(self, intent: Intent) -> None:
        """Remove the intent of this attempt, unless another attempt took it or it has an outcome."""
        await self._reach()
        if (effect := self._find_open(intent)) is not None and effect.is_of(intent):
            del self._effects[_key(intent)]

    async def is_settled(self, tenant: UUID, canonical: UUID, step: str) -> bool:
        """Check whether a step of a task has an outcome."""
        await self._reach()
        outcomes = [effect.outcome for key, effect in self._effects.items() if key[:3] == (tenant, canonical, step)]
        return bool(outcomes) and None not in outcomes

    async def abandon(self, intent: Intent) -> None:
        """Write down that this attempt will not go on with it."""
        await self._reach()
        if (effect := self._find_open(intent)) is not None and effect.is_of(intent):
            effect.may_act_until = self._now()

    async def _reach(self) -> None:
        """Let others run first, as a round trip does.

        Raises:
            UpstreamUnavailable: the store is away.
        """
        await asyncio.sleep(0)
        if self.failures > 0:
            self.failures -= 1
            raise UpstreamUnavailable("postgresql", retry_after_s=2)

    def _intend(self, intent: Intent) -> Entered | None:
        if self._leases.get(intent.task) != (intent.worker, intent.attempt):
            return None
        effect = self._effects.get(_key(intent))
        if effect is None:
            until = self._now() + intent.within_s
            self._effects[_key(intent)] = _Effect(intent.attempt, intent.worker, until)
            return Entered(None, fresh=True)
        if effect.outcome is not None or effect.is_of(intent) or effect.may_act_until <= self._now():
            return Entered(deepcopy(effect.outcome), fresh=False)
        present = effect.worker in self.present
        until = effect.may_act_until if present else self._due[intent.task] + self._lease_s
        left_s = max(min(until, effect.may_act_until) - self._now(), 0.0)
        return Entered(None, fresh=False, present=present, busy_s=left_s)

    def _find_open(self, intent: Intent) -> _Effect | None:
        effect = self._effects.get(_key(intent))
        return effect if effect is not None and effect.outcome is None else None


def _key(intent: Intent) -> _Key:
    return intent.tenant, intent.canonical, intent.step, intent.digest
