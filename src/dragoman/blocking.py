"""Places for work that blocks: a fixed number of them, of which one tenant holds a share at most.

Nothing runs in asyncio's own pool, which all tenants would share: whatever blocks names its pool here, or is a process
(`infra/children.py`). A tenant that has its share waits without a thread, and those that wait take turns by tenant.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class TooManyWaiting(Exception):
    """As many calls of the tenant wait for a place as may."""


class Slots:
    """Counts places. It belongs to one event loop."""

    def __init__(self, size: int, *, share: int) -> None:
        if not 0 < share <= size:
            raise ValueError(f"a share of {share} does not fit into {size} places")
        self._free = size
        self._share = share
        self._held: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def hold(self, tenant: Hashable, *, most_waiting: int | None = None) -> AsyncGenerator[None]:
        """Wait for a place, and hold it.

        Raises:
            TooManyWaiting: there is none at once, and `most_waiting` calls of the tenant wait already.
        """
        await self.acquire(tenant, most_waiting=most_waiting)
        try:
            yield
        finally:
            self.release(tenant)

    async def acquire(self, tenant: Hashable, *, most_waiting: int | None = None) -> None:
        """Wait for a place; every one that is acquired must be released. Raises as `hold` does."""
        if self._free and self._held[tenant] < self._share:
            self._take(tenant)
            return
        if most_waiting is not None and len(self._waiting.get(tenant, ())) >= most_waiting:
            raise TooManyWaiting
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Its turn came at the moment in which it was cancelled.
                self.release(tenant)
            else:
                self._leave(tenant, turn)
            raise

    def release(self, tenant: Hashable) -> None:
        """Give a place back; the next tenant in turn that has not its share gets it."""
        self._free += 1
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        for waiting in list(self._waiting):
            if not self._free:
                return
            if self._held[waiting] < self._share:
                turns = self._waiting[waiting]
                turn = turns.popleft()
                if turns:
                    self._waiting.move_to_end(waiting)
                else:
                    del self._waiting[waiting]
                self._take(waiting)
                turn.set_result(None)

    def _take(self, tenant: Hashable) -> None:
        self._free -= 1
        self._held[tenant] += 1

    def _leave(self, tenant: Hashable, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting[tenant]
        turns.remove(turn)
        if not turns:
            del self._waiting[tenant]


class Threads:
    """A pool of threads of its own for one kind of work. It belongs to one event loop.

    A thread cannot be stopped: only work that ends by itself belongs here.
    """

    def __init__(self, name: str, size: int, *, share: int | None = None) -> None:
        self._slots = Slots(size, share=share or size)
        self._executor = ThreadPoolExecutor(size, thread_name_prefix=name)

    async def run(self, tenant: Hashable, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `work` in a thread, for a tenant, or for the server itself (None).

        The place of a call that is cancelled stays taken until its thread is free.
        """
        await self._slots.acquire(tenant)
        loop = asyncio.get_running_loop()

        def ended(_: "Future[T]") -> None:
            with suppress(RuntimeError):  # the loop has ended before the thread
                loop.call_soon_threadsafe(self._slots.release, tenant)

        context = copy_context()
        future = self._executor.submit(lambda: context.run(work, *args, **kwargs))
        future.add_done_callback(ended)
        return await asyncio.wrap_future(future)
