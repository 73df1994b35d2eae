"""The ledger of side effects: each happens once for its task, however often and wherever the task is tried."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from dragoman.errors import DragomanError, UpstreamUnavailable
from dragoman.infra.digests import digest_of
from dragoman.services.delegation.errors import EffectUnknown, Superseded
from dragoman.services.delegation.store_effects import EffectStore, Entered, Intent
from dragoman.services.delegation.workers import Json
from dragoman.services.tasks.grouped import Grouped


class Ledger:
    """Writes intents and outcomes, those of one moment together.

    What is known of an effect is written even when the attempt is stopped meanwhile: what nobody wrote, a person would
    have to find out.
    """

    def __init__(self, store: EffectStore, *, rest_s: float = 0.5) -> None:
        self._store = store
        self._rest_s = rest_s
        self._intents: Grouped[Intent, Entered | None] = Grouped(store.intend)
        self._outcomes: Grouped[tuple[Intent, Json], None] = Grouped(store.settle)
        self._pursued: set[asyncio.Task[None]] = set()

    async def intend(self, intent: Intent) -> Entered:
        """Note what is about to be done.

        Raises:
            Superseded: the attempt no longer has its task.
        """
        noted = self._intents.begin(intent)
        try:
            entered = await asyncio.shield(noted)
        except asyncio.CancelledError:
            self._pursue(self._unbegun(intent, noted))
            raise
        if entered is None:
            raise Superseded
        return entered

    async def settle(self, intent: Intent, outcome: Json) -> None:
        """Note what came of it, for as long as it takes."""
        noted = self._outcomes.begin((intent, outcome))
        try:
            await asyncio.shield(noted)
        except asyncio.CancelledError:
            self._pursue(self._settled(intent, outcome, noted))
            raise
        except UpstreamUnavailable:
            await asyncio.shield(self._pursue(self._settled(intent, outcome, noted)))

    async def withdraw(self, intent: Intent) -> None:
        """Note that it was not done."""
        await self._store.withdraw(intent)

    async def close(self, *, within_s: float = 5.0) -> None:
        """Wait for what is still being written; a database that is away is not waited for."""
        if self._pursued:
            _, left = await asyncio.wait(self._pursued, timeout=within_s)
            for work in left:
                work.cancel()

    def _pursue(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        pursued = asyncio.create_task(work)
        self._pursued.add(pursued)
        pursued.add_done_callback(self._pursued.discard)
        return pursued

    async def _unbegun(self, intent: Intent, noted: asyncio.Future[Entered | None]) -> None:
        """The attempt was stopped before it began: if it was the first to mean to, it was not done."""
        with suppress(DragomanError):
            entered = await noted
            if entered is not None and entered.fresh:
                await self._store.withdraw(intent)

    async def _settled(self, intent: Intent, outcome: Json, noted: asyncio.Future[None]) -> None:
        while True:
            try:
                return await noted
            except UpstreamUnavailable:
                await asyncio.sleep(self._rest_s)
                noted = self._outcomes.begin((intent, outcome))


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
