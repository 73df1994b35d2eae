"""The ledger of side effects: each happens once for its task, however often and wherever the task is tried."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from dragoman.errors import DragomanError
from dragoman.infra.digests import digest_of
from dragoman.services.delegation.errors import EffectUnknown, Superseded
from dragoman.services.delegation.store_effects import EffectStore, Entered, Intent
from dragoman.services.delegation.workers import Json
from dragoman.services.tasks.grouped import Grouped


class Ledger:
    """Writes intents and outcomes, those of one moment together."""

    def __init__(self, store: EffectStore) -> None:
        self._store = store
        self._intents: Grouped[Intent, Entered | None] = Grouped(store.intend)
        self._outcomes: Grouped[tuple[Intent, Json], None] = Grouped(store.settle)

    async def intend(self, intent: Intent) -> Entered:
        """Note what is about to be done.

        Raises:
            Superseded: the attempt no longer has its task.
        """
        entered = await self._intents.put(intent)
        if entered is None:
            raise Superseded
        return entered

    async def settle(self, intent: Intent, outcome: Json) -> None:
        """Note what came of it."""
        await self._outcomes.put((intent, outcome))

    async def withdraw(self, intent: Intent) -> None:
        """Note that it was not done."""
        await self._store.withdraw(intent.tenant, intent.canonical, intent.step)


@dataclass(frozen=True, slots=True)
class TaskEffects:
    """The effects of one attempt at one task."""

    ledger: Ledger
    tenant: UUID
    task: UUID
    canonical: UUID
    attempt: int

    async def once(
        self,
        step: str,
        request: Json,
        perform: Callable[[str], Awaitable[Json]],
        *,
        find: Callable[[str], Awaitable[Json | None]] | None = None,
        repeatable: bool = False,
    ) -> Json:
        """Do it, unless it was done: the outcome, now or as it was then.

        Raises:
            EffectUnknown: a worker died in between, and only a person can tell.
        """
        digest = digest_of(step, request)
        intent = Intent(self.tenant, self.task, self.canonical, step, digest, self.attempt)
        key = f"{self.canonical}:{step}:{digest.hex()[:16]}"
        entered = await self.ledger.intend(intent)
        if entered.outcome is not None:
            return entered.outcome
        if not entered.fresh and not repeatable:
            if find is None:
                raise EffectUnknown(step)
            if (found := await find(key)) is not None:
                await self.ledger.settle(intent, found)
                return found
        try:
            outcome = await perform(key)
        except DragomanError as error:
            if not error.retryable:  # refused: there is nothing that nobody knows of
                await self.ledger.withdraw(intent)
            raise
        await self.ledger.settle(intent, outcome)
        return outcome
