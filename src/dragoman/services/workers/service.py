"""Workers that tenants register: added, changed, removed, and shown beside those of the server."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import InvalidInput, Stale
from dragoman.infra.auth.vault import Vault
from dragoman.infra.db import UniqueViolated, scope_of
from dragoman.infra.outbound import Guard
from dragoman.operations import Page
from dragoman.services.tasks.actions.errors import TooManyWorkers, WorkerExists, WorkerNotFound
from dragoman.services.workers import models as m
from dragoman.services.workers.protocol import Worker
from dragoman.services.workers.registry import CapabilityRegistry
from dragoman.services.workers.store import Registration, WorkerStore, place_of

MOST_WORKERS: Final = 100
AfterCommit = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]


class WorkerRoster:
    """Keeps the remote workers of tenants."""

    def __init__(
        self,
        store: WorkerStore,
        registry: CapabilityRegistry,
        *,
        guard: Guard,
        vault: Vault,
        after_commit: AfterCommit,
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._registry = registry
        self._guard = guard
        self._vault = vault
        self._after_commit = after_commit
        self._new_id = new_id

    async def check_new(self, caller: Caller, new: m.RegisterWorker) -> m.RegisterWorker:
        """Refuse an address before anything is written.

        Raises:
            OutboundRefused: it must not be reached.
        """
        del caller
        await self._guard.check(new.url)
        return new

    async def register(self, caller: Caller, new: m.RegisterWorker) -> m.WorkerView:
        """Add a worker. It performs nothing until an action of it is allowed.

        Raises:
            WorkerExists: the name is taken.
            TooManyWorkers: there are enough.
        """
        worker_id, now = self._new_id(), datetime.now(UTC)
        name = f"{new.kind.value}:{new.name}"
        added = Registration(
            id=worker_id,
            name=name,
            kind=new.kind.value,
            url=new.url,
            header=new.header,
            secret=self._seal(caller, worker_id, new.credential.get_secret_value()) if new.credential else None,
            actions=[one.model_dump(mode="json") for one in new.actions],
            enabled=new.enabled,
            version=1,
            created_by=caller.subject,
            created_at=now,
            updated_at=now,
        )
        try:
            stored = await self._store.add(scope_of(caller), added, most=MOST_WORKERS)
        except UniqueViolated:
            raise WorkerExists(name) from None
        if stored is None:
            raise TooManyWorkers(limit=MOST_WORKERS)
        await self._changed(caller)
        return _view(stored)

    async def list(self, caller: Caller, wanted: m.ListWorkers) -> Page[m.WorkerView]:
        """Those of the server, then those of the tenant by name."""
        shown = [_own_view(worker) for worker in self._registry.built_in]
        shown += [_view(one) for one in await self._store.list_workers(scope_of(caller))]
        return Page(items=[one for one in shown if wanted.kind in (None, one.kind)])

    async def check_change(self, caller: Caller, given: m.UpdateWorker) -> m.UpdateWorker:
        """Refuse an address before anything is written.

        Raises:
            OutboundRefused: it must not be reached.
        """
        del caller
        if given.url is not None:
            await self._guard.check(given.url)
        return given

    async def update(self, caller: Caller, given: m.UpdateWorker) -> m.WorkerView:
        """Change a worker; what runs goes on as it began.

        Raises:
            WorkerNotFound: the tenant has no such worker.
            InvalidInput: the address is on another host, and the credential was not given again.
            Stale: it was changed since the caller read it.
        """
        old = await self._get(caller, given.worker)
        if given.expected_version not in (None, old.version):
            raise Stale("worker", expected=given.expected_version or 0, current=old.version)
        fresh = replace(
            old,
            url=given.url or old.url,
            header=given.header or old.header,
            actions=old.actions if given.actions is None else [one.model_dump(mode="json") for one in given.actions],
            enabled=old.enabled if given.enabled is None else given.enabled,
        )
        if given.credential is not None:
            fresh = replace(fresh, secret=self._seal(caller, old.id, given.credential.get_secret_value()))
        elif old.secret is not None and _origin(fresh.url) != _origin(old.url):
            # Whoever may change the address must not thereby have the secret sent to themselves.
            raise InvalidInput.of("credential", "must be given again when the worker moves to another host")
        stored = await self._store.change(scope_of(caller), fresh)
        if stored is None:
            raise Stale("worker", expected=old.version, current=old.version + 1)
        await self._changed(caller)
        return _view(stored)

    async def remove(self, caller: Caller, ref: m.WorkerRef) -> m.WorkerView:
        """Forget a worker, its credential and all that was decided about it.

        Raises:
            WorkerNotFound: the tenant has no such worker.
        """
        removed = await self._store.remove(scope_of(caller), ref.worker)
        if removed is None:
            raise WorkerNotFound(ref.worker)
        await self._changed(caller)
        return _view(removed)

    async def _get(self, caller: Caller, name: str) -> Registration:
        for one in await self._store.list_workers(scope_of(caller)):
            if one.name == name:
                return one
        raise WorkerNotFound(name)

    def _seal(self, caller: Caller, worker_id: UUID, credential: str) -> bytes:
        return self._vault.seal(credential.encode(), place=place_of(caller.tenant, worker_id))

    async def _changed(self, caller: Caller) -> None:
        async def forget() -> None:
            self._registry.forget(caller.tenant)

        await self._after_commit(forget)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _view(stored: Registration) -> m.WorkerView:
    return m.WorkerView(
        id=stored.id,
        name=stored.name,
        kind=m.WorkerKind(stored.kind),
        url=stored.url,
        enabled=stored.enabled,
        has_credential=stored.secret is not None,
        actions=[m.ActionView.model_validate(one) for one in stored.actions],
        version=stored.version,
        created_by=stored.created_by,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def _own_view(worker: Worker) -> m.WorkerView:
    actions = [m.ActionView.model_validate(one, from_attributes=True) for one in worker.capabilities]
    return m.WorkerView(name=worker.name, kind=m.WorkerKind.BUILT_IN, actions=actions)
