"""The workers of a tenant: register, list, change and remove them."""

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


class WorkerService:
    """Registers, lists, changes and removes the remote workers of tenants."""

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
        """Check the address before anything is written.

        Raises:
            OutboundRefused: requests to the address are not permitted.
        """
        del caller
        await self._guard.check(new.url)
        return new

    async def register(self, caller: Caller, new: m.RegisterWorker) -> m.WorkerView:
        """Add a worker. It gets no task until one of its actions is allowed.

        Raises:
            WorkerExists: the name is taken.
            TooManyWorkers: the tenant has reached the limit.
        """
        worker_id, now = self._new_id(), datetime.now(UTC)
        name = f"{new.kind.value}:{new.name}"
        registration = Registration(
            id=worker_id,
            name=name,
            kind=new.kind.value,
            url=new.url,
            header=new.header,
            secret=self._seal(caller, worker_id, new.credential.get_secret_value()) if new.credential else None,
            actions=[action.model_dump(mode="json") for action in new.actions],
            enabled=new.enabled,
            version=1,
            created_by=caller.subject,
            created_at=now,
            updated_at=now,
        )
        try:
            stored = await self._store.add(scope_of(caller), registration, most=MOST_WORKERS)
        except UniqueViolated:
            raise WorkerExists(name) from None
        if stored is None:
            raise TooManyWorkers(limit=MOST_WORKERS)
        await self._changed(caller)
        return _view(stored)

    async def list(self, caller: Caller, query: m.ListWorkers) -> Page[m.WorkerView]:
        """List the workers of this server, then those of the tenant by name."""
        views = [_own_view(worker) for worker in self._registry.built_in]
        views += [_view(registration) for registration in await self._store.list_workers(scope_of(caller))]
        return Page(items=[view for view in views if query.kind in (None, view.kind)])

    async def check_change(self, caller: Caller, change: m.UpdateWorker) -> m.UpdateWorker:
        """Check the address before anything is written.

        Raises:
            OutboundRefused: requests to the address are not permitted.
        """
        del caller
        if change.url is not None:
            await self._guard.check(change.url)
        return change

    async def update(self, caller: Caller, change: m.UpdateWorker) -> m.WorkerView:
        """Change a worker; attempts that run already go on unchanged.

        Raises:
            WorkerNotFound: the tenant has no such worker.
            InvalidInput: the address is on another host, and the credential was not sent again.
            Stale: the worker was changed since the caller read it.
        """
        old = await self._get(caller, change.worker)
        if change.expected_version not in (None, old.version):
            raise Stale("worker", expected=change.expected_version or 0, current=old.version)
        updated = replace(
            old,
            url=change.url or old.url,
            header=change.header or old.header,
            actions=old.actions
            if change.actions is None
            else [action.model_dump(mode="json") for action in change.actions],
            enabled=old.enabled if change.enabled is None else change.enabled,
        )
        if change.credential is not None:
            updated = replace(updated, secret=self._seal(caller, old.id, change.credential.get_secret_value()))
        elif old.secret is not None and _origin(updated.url) != _origin(old.url):
            # Otherwise changing the address would send the stored secret to a host of the caller's choice.
            raise InvalidInput.of("credential", "is required again when the worker moves to another host")
        stored = await self._store.change(scope_of(caller), updated)
        if stored is None:
            raise Stale("worker", expected=old.version, current=old.version + 1)
        await self._changed(caller)
        return _view(stored)

    async def remove(self, caller: Caller, ref: m.WorkerRef) -> m.WorkerView:
        """Remove a worker, its credential and every decision about its capabilities.

        Raises:
            WorkerNotFound: the tenant has no such worker.
        """
        removed = await self._store.remove(scope_of(caller), ref.worker)
        if removed is None:
            raise WorkerNotFound(ref.worker)
        await self._changed(caller)
        return _view(removed)

    async def _get(self, caller: Caller, name: str) -> Registration:
        for registration in await self._store.list_workers(scope_of(caller)):
            if registration.name == name:
                return registration
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


def _view(registration: Registration) -> m.WorkerView:
    return m.WorkerView(
        id=registration.id,
        name=registration.name,
        kind=m.WorkerKind(registration.kind),
        url=registration.url,
        enabled=registration.enabled,
        has_credential=registration.secret is not None,
        actions=[m.ActionView.model_validate(action) for action in registration.actions],
        version=registration.version,
        created_by=registration.created_by,
        created_at=registration.created_at,
        updated_at=registration.updated_at,
    )


def _own_view(worker: Worker) -> m.WorkerView:
    actions = [m.ActionView.model_validate(capability, from_attributes=True) for capability in worker.capabilities]
    return m.WorkerView(name=worker.name, kind=m.WorkerKind.BUILT_IN, actions=actions)
