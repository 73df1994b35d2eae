"""The ledger of side effects: each happens once for its task, however often and wherever the task is tried.

    intend     durable before the other side is called, by the attempt that has the task and no other
    perform    calls the other side, with a key that never changes
    settle     the outcome is durable; from now on every attempt is given it

After a crash between the two only the other side knows. It is asked (`find`), called again where it does nothing twice
(`repeatable`), or a person is asked; but not before the earlier attempt can no longer act: its time is over, it has
said that it stopped, or its process and its lease are gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from dragoman import kit
from dragoman.errors import DragomanError, UpstreamUnavailable
from dragoman.infra.batching import Batcher
from dragoman.infra.digests import digest_of
from dragoman.services.audit.rows import hashed
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.engine.ports import Entered, Intent, LedgerStore
from dragoman.services.tasks.errors import EffectBusy
from dragoman.services.tasks.models import Json

R = TypeVar("R")
Perform = Callable[[str], Awaitable[Json]]
Find = Callable[[str], Awaitable[Json | None]]
# What an earlier attempt does may be over sooner than its time is: look again after this.
_LOOK_AGAIN_S: Final = 2.0
# Called when an outcome comes in after its attempt was stopped: the task may wait for a person because of it.
SettledLate = Callable[[UUID, UUID, str], Awaitable[None]]


class Ledger:
    """Writes intents and outcomes, those of one moment together.

    What is known of an effect is written even when the attempt is stopped meanwhile: what nobody wrote, a person would
    have to find out.
    """

    def __init__(self, store: LedgerStore, *, backoff_s: float = 0.5) -> None:
        self._store = store
        self._backoff_s = backoff_s
        self._intents: Batcher[Intent, Entered | None] = Batcher(store.intend, key=_key)
        self._outcomes: Batcher[tuple[Intent, Json], None] = Batcher(store.settle)
        self._background: set[asyncio.Task[None]] = set()
        self._withdrawals: dict[tuple[UUID, str, bytes], asyncio.Task[None]] = {}
        self._settled_late: SettledLate | None = None

    def on_late_outcome(self, listener: SettledLate) -> None:
        """Call the listener with the tenant, the task and the step of an outcome that came after its attempt."""
        self._settled_late = listener

    async def intend(self, intent: Intent) -> Entered:
        """Write down what is about to be done.

        Raises:
            AttemptFenced: the attempt no longer has its task.
        """
        if (withdrawal := self._withdrawals.get(_key(intent))) is not None:
            await asyncio.shield(withdrawal)  # of an intent that this attempt had before, and could not confirm
        written = self._intents.begin(intent)
        try:
            entered = await asyncio.shield(written)
        except (asyncio.CancelledError, kit.AttemptFenced, UpstreamUnavailable):
            self._withdraw_unstarted(intent, written)
            raise
        if entered is None:
            raise kit.AttemptFenced
        return entered

    async def take(self, intent: Intent) -> None:
        """Write down that this attempt goes on with what an earlier one began."""
        await self._store.take(intent)

    async def settle(self, intent: Intent, outcome: Json) -> None:
        """Write down what came of it, for as long as it takes."""
        written = self._outcomes.begin((intent, outcome))
        try:
            await asyncio.shield(written)
        except (asyncio.CancelledError, kit.AttemptFenced):
            self._run_in_background(self._settled(intent, outcome, written))
            raise
        except UpstreamUnavailable:
            await asyncio.shield(self._run_in_background(self._settled(intent, outcome, written)))

    async def withdraw(self, intent: Intent) -> None:
        """Write down that it was not done."""
        await self._store.withdraw(intent)

    def abandon(self, intent: Intent) -> None:
        """Write down soon that the attempt was stopped in the middle of it, and will not go on."""
        self._run_in_background(self._until_available(partial(self._store.abandon, intent)))

    async def tell_if_known(self, tenant: UUID, canonical: UUID, step: str) -> None:
        """Tell of an outcome that was written while a task was about to ask a person for it.

        Who writes an outcome looks for a task that asks, and who asks looks for an outcome, each after its own write:
        one of them finds the other.
        """
        if await self._until_available(partial(self._store.is_settled, tenant, canonical, step)):
            await self._tell(tenant, canonical, step)

    async def close(self, *, within_s: float = 5.0) -> None:
        """Wait for what is still being written, but not for a database that is away."""
        if self._background:
            _, left = await asyncio.wait(self._background, timeout=within_s)
            for work in left:
                work.cancel()

    def _run_in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def _withdraw_unstarted(self, intent: Intent, written: "asyncio.Future[Entered | None]") -> None:
        """Withdraw an intent that was not carried out, for as long as it takes; it may be written all the same."""
        key = _key(intent)
        withdrawal = self._withdrawals[key] = self._run_in_background(self._withdrawn(intent, written))
        withdrawal.add_done_callback(lambda _: self._withdrawals.pop(key, None))

    async def _withdrawn(self, intent: Intent, written: "asyncio.Future[Entered | None]") -> None:
        try:
            entered = await written
        except DragomanError:
            pass  # it may be written, and only the answer lost
        else:
            if entered is None or not entered.fresh:
                return
        await self._until_available(partial(self._store.withdraw, intent))

    async def _settled(self, intent: Intent, outcome: Json, written: "asyncio.Future[None]") -> None:
        """Write an outcome for as long as it takes, and tell of it: its attempt may be over."""
        while True:
            try:
                await written
                break
            except UpstreamUnavailable:
                await asyncio.sleep(self._backoff_s)
                written = self._outcomes.begin((intent, outcome))
        await self._tell(intent.tenant, intent.canonical, intent.step)

    async def _tell(self, tenant: UUID, canonical: UUID, step: str) -> None:
        """Tell of an outcome for as long as it takes: a person may be asked for it."""
        if self._settled_late is not None:
            await self._until_available(partial(self._settled_late, tenant, canonical, step))

    async def _until_available(self, call: Callable[[], Awaitable[R]]) -> R:
        """Call until our database answers."""
        while True:
            try:
                return await call()
            except UpstreamUnavailable:
                await asyncio.sleep(self._backoff_s)


def _key(intent: Intent) -> tuple[UUID, str, bytes]:
    return intent.canonical, intent.step, intent.digest


@dataclass(frozen=True, slots=True)
class TaskEffects:
    """The effects of one attempt at one task. `canonical` is the task itself, whichever run of it this is.

    `settled` gathers the hashes of the outcomes that the attempt knows, by step and digest of the request.
    """

    ledger: Ledger
    lease: Lease
    tenant: UUID
    canonical: UUID
    within_s: float
    settled: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    async def once(
        self,
        step: str,
        request: Json,
        perform: Perform,
        *,
        find: Find | None = None,
        repeatable: bool = False,
    ) -> Json:
        """Perform a side effect unless it was performed before; return its outcome, of now or of then.

        Raises:
            EffectUnknown: a worker died in between, and only a person can tell.
            EffectBusy: an earlier attempt may still be at it; try again later.
            AttemptFenced: another attempt has the task; nothing was performed.
        """
        self.lease.check()
        digest = digest_of(step, request)
        outcome = await self._once(step, digest, perform, find=find, repeatable=repeatable)
        self.settled[step, digest.hex()] = hashed(outcome)
        return outcome

    async def _once(self, step: str, digest: bytes, perform: Perform, *, find: Find | None, repeatable: bool) -> Json:
        intent = Intent(
            self.tenant, self.lease.task_id, self.canonical, step, digest, self.lease.attempt, self.lease.owner,
            self.within_s,
        )  # fmt: skip
        key = f"{self.canonical}:{step}:{digest.hex()[:16]}"
        entered = await self.ledger.intend(intent)
        while entered.busy_s > 0 and not entered.present and not repeatable:
            # The earlier process does not listen, but its lease may still let it act. That is over within a lease.
            await asyncio.sleep(min(entered.busy_s, _LOOK_AGAIN_S))
            entered = await self.ledger.intend(intent)
        if entered.outcome is not None:
            return entered.outcome
        if not entered.fresh:
            outcome = await self._go_on(intent, key, entered, find=find, repeatable=repeatable)
            if outcome is not None:
                return outcome
        return await self._perform(intent, key, perform)

    async def _go_on(
        self, intent: Intent, key: str, entered: Entered, *, find: Find | None, repeatable: bool
    ) -> Json | None:
        """Return what an earlier attempt did; None when it is this one's to perform."""
        if not repeatable:
            if entered.busy_s > 0:
                raise EffectBusy(intent.step, busy_s=min(entered.busy_s, _LOOK_AGAIN_S))
            if find is None:
                raise kit.EffectUnknown(intent.step)
            if (outcome := await find(key)) is not None:
                await self.ledger.settle(intent, outcome)
                return outcome
        self.lease.check()
        await self.ledger.take(intent)
        return None

    async def _perform(self, intent: Intent, key: str, perform: Perform) -> Json:
        self.lease.check()
        try:
            outcome = await perform(key)
        except DragomanError as error:
            if not error.retryable:  # refused: it was not done, and that is known
                await self.ledger.withdraw(intent)
            else:
                self.ledger.abandon(intent)
            raise
        except Exception:
            self.ledger.abandon(intent)
            raise
        # A cancellation says nothing: what it awaited in a thread goes on, so its time has to run out.
        await self.ledger.settle(intent, outcome)
        return outcome
