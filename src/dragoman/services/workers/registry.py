"""Which worker performs an action for a tenant: remembered, since every task asks."""

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

# A decision made in another process is seen here after so long.
_FRESH_S: Final = 1.0
# While one asks whether a table is still true, others use it, unless it is older than this.
_OLD_S: Final = 5.0
_MOST_KEPT: Final = 10_000
OpenRemote = Callable[[UUID, Registration], Worker]


@dataclass(slots=True)
class _Known:
    table: Table
    version: int
    checked_at: float


class CapabilityRegistry:
    """Finds routes in memory; at most once a second a tenant's version is asked for.

    A change through this process is seen at once. `open_remote` makes the worker of a registration.
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
        self._untouched = tabulate(self.built_in, (), ())
        self._known: dict[UUID, _Known] = {}
        self._checking: set[UUID] = set()
        self._changes = 0

    async def find(self, caller: Caller, action: str) -> Route | None:
        """The worker that is allowed to, or None: nobody can, or nobody may."""
        return (await self.table(caller)).routes.get(action)

    async def table(self, caller: Caller) -> Table:
        """All that there is for a tenant, and how it stands."""
        known = self._known.get(caller.tenant)
        if known is not None:
            age_s = self._clock() - known.checked_at
            if age_s < _FRESH_S or (age_s < _OLD_S and caller.tenant in self._checking):
                return known.table
        self._checking.add(caller.tenant)
        try:
            return await self._refresh(scope_of(caller), caller.tenant, known)
        finally:
            self._checking.discard(caller.tenant)

    async def read(self, caller: Caller) -> Table:
        """The same as it stands in the open transaction; it is not remembered."""
        return await self._read(scope_of(caller), caller.tenant)

    def forget(self, tenant: UUID) -> None:
        """Something was changed: ask again."""
        self._changes += 1
        self._known.pop(tenant, None)

    async def _refresh(self, scope: Scope, tenant: UUID, known: _Known | None) -> Table:
        began_at, changes = self._clock(), self._changes
        # Before all else: what is changed from here on is newer than what is remembered.
        version = await self._store.find_version(scope)
        if known is not None and known.version == version:
            known.checked_at = began_at
            return known.table
        table = await self._read(scope, tenant) if version else self._untouched
        if changes == self._changes:
            self._keep(tenant, _Known(table, version, began_at))
        return table

    async def _read(self, scope: Scope, tenant: UUID) -> Table:
        remote = [(self._open_remote(tenant, one), one.enabled) for one in await self._store.list_workers(scope)]
        return tabulate(self.built_in, remote, await self._store.list_rules(scope))

    def _keep(self, tenant: UUID, known: _Known) -> None:
        if tenant not in self._known and len(self._known) >= _MOST_KEPT:
            self._known.pop(next(iter(self._known)))
        self._known[tenant] = known
