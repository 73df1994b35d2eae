"""The registry: which worker performs an action for a tenant, cached, since every task needs it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.infra.db import Scope, scope_of
from dragoman.services.tasks.actions.ports import Route
from dragoman.services.workers.protocol import Worker
from dragoman.services.workers.routing import Table, tabulate
from dragoman.services.workers.store import Registration, WorkerStore

# A decision that another process made is seen here after this time at the latest.
_FRESH_S: Final = 1.0
# While one request checks the version of a table, others use the table, unless it is older than this.
_OLD_S: Final = 5.0
_MOST_CACHED: Final = 10_000
OpenRemote = Callable[[UUID, Registration], Worker]


@dataclass(slots=True)
class _Cached:
    table: Table
    version: int
    checked_at: float


class CapabilityRegistry:
    """Finds routes in memory; the version of a tenant's table is read at most once a second.

    A change made by this process is seen at once. `open_remote` opens the worker of a registration.
    """

    def __init__(
        self,
        store: WorkerStore,
        built_in: Sequence[Worker],
        *,
        open_remote: OpenRemote,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._store = store
        self.built_in = tuple(built_in)
        self._open_remote = open_remote
        self._clock = clock
        self._default = tabulate(self.built_in, (), ())
        self._cache: dict[UUID, _Cached] = {}
        self._checking: set[UUID] = set()
        self._changes = 0

    async def find(self, caller: Caller, action: str) -> Route | None:
        """Return the worker that performs the action; None when no worker is allowed to."""
        return (await self.table(caller)).routes.get(action)

    async def table(self, caller: Caller) -> Table:
        """Return the table of the caller's tenant."""
        cached = self._cache.get(caller.tenant)
        if cached is not None:
            age_s = self._clock() - cached.checked_at
            if age_s < _FRESH_S or (age_s < _OLD_S and caller.tenant in self._checking):
                return cached.table
        self._checking.add(caller.tenant)
        try:
            return await self._refresh(scope_of(caller), caller.tenant, cached)
        finally:
            self._checking.discard(caller.tenant)

    async def read(self, caller: Caller) -> Table:
        """Read the table in the open transaction, and do not cache it."""
        return await self._read(scope_of(caller), caller.tenant)

    def forget(self, tenant: UUID) -> None:
        """Drop the cached table of a tenant, after a change."""
        self._changes += 1
        self._cache.pop(tenant, None)

    async def _refresh(self, scope: Scope, tenant: UUID, cached: _Cached | None) -> Table:
        began_at, changes = self._clock(), self._changes
        # Read first: every change from here on has a newer version than the one that is cached.
        version = await self._store.find_version(scope)
        if cached is not None and cached.version == version:
            cached.checked_at = began_at
            return cached.table
        table = await self._read(scope, tenant) if version else self._default
        if changes == self._changes:
            self._remember(tenant, _Cached(table, version, began_at))
        return table

    async def _read(self, scope: Scope, tenant: UUID) -> Table:
        registrations = await self._store.list_workers(scope)
        remote = [(self._open_remote(tenant, worker), worker.enabled) for worker in registrations]
        return tabulate(self.built_in, remote, await self._store.list_rules(scope))

    def _remember(self, tenant: UUID, cached: _Cached) -> None:
        if tenant not in self._cache and len(self._cache) >= _MOST_CACHED:
            self._cache.pop(next(iter(self._cache)))
        self._cache[tenant] = cached
