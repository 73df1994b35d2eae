"""Capability permissions: which worker may perform which action for a tenant."""

from collections.abc import Sequence

from dragoman.context import Caller
from dragoman.infra.db import scope_of
from dragoman.operations import Page
from dragoman.services.tasks.actions.errors import CapabilityNotFound, NotDeclared, WorkerNotFound
from dragoman.services.workers import models as m
from dragoman.services.workers.registry import CapabilityRegistry
from dragoman.services.workers.routing import Table, WorkerCapability
from dragoman.services.workers.schemas import schema_of
from dragoman.services.workers.service import AfterCommit
from dragoman.services.workers.store import Rule, WorkerStore


class CapabilityPermissions:
    """Lists, allows and denies the capabilities of a tenant's workers."""

    def __init__(self, store: WorkerStore, registry: CapabilityRegistry, *, after_commit: AfterCommit) -> None:
        self._store = store
        self._registry = registry
        self._after_commit = after_commit

    async def list(self, caller: Caller, query: m.ListCapabilities) -> Page[m.CapabilityView]:
        """List every action of every worker, by action; the worker that performs it comes first."""
        views = _views(await self._registry.table(caller), query.action)
        return Page(items=[view for view in views if query.allowed in (None, view.allowed)])

    async def allow(self, caller: Caller, request: m.AllowCapability) -> m.CapabilityDecision:
        """Allow a worker to perform an action; a preferred worker replaces the one that was preferred before.

        Raises:
            WorkerNotFound: the tenant has no such worker.
            NotDeclared: the worker does not declare the action.
        """
        await self._check_declared(caller, request.action, request.worker)
        rule = Rule(
            request.action, request.worker, allowed=True, preferred=request.prefer, reason=request.reason,
            decided_by=caller.subject,
        )  # fmt: skip
        return await self._decide(caller, request.action, [rule])

    async def deny(self, caller: Caller, request: m.DenyCapability) -> m.CapabilityDecision:
        """Deny an action to a worker; without a worker, to all that declare it now.

        Raises:
            WorkerNotFound: the tenant has no such worker.
            NotDeclared: the worker does not declare the action.
            CapabilityNotFound: no worker declares the action.
        """
        if request.worker is not None:
            await self._check_declared(caller, request.action, request.worker)
        table = await self._registry.table(caller)
        names = [entry.worker.name for entry in table.entries if entry.capability.action == request.action]
        if not names:
            raise CapabilityNotFound(request.action)
        rules = [
            Rule(request.action, name, allowed=False, reason=request.reason, decided_by=caller.subject)
            for name in names
            if request.worker in (None, name)
        ]
        return await self._decide(caller, request.action, rules)

    async def _decide(self, caller: Caller, action: str, rules: Sequence[Rule]) -> m.CapabilityDecision:
        await self._store.decide(scope_of(caller), rules)

        async def forget() -> None:
            self._registry.forget(caller.tenant)

        await self._after_commit(forget)
        views = _views(await self._registry.read(caller), action)
        return m.CapabilityDecision(
            action=action,
            performed_by=next((view.worker for view in views if view.performs), None),
            capabilities=views,
        )

    async def _check_declared(self, caller: Caller, action: str, worker: str) -> None:
        entries = [entry for entry in (await self._registry.table(caller)).entries if entry.worker.name == worker]
        if not entries:
            raise WorkerNotFound(worker)
        if all(entry.capability.action != action for entry in entries):
            raise NotDeclared(worker, action)


def _views(table: Table, action: str | None) -> list[m.CapabilityView]:
    entries = [entry for entry in table.entries if action in (None, entry.capability.action)]
    return [_view(entry) for entry in sorted(entries, key=lambda entry: (entry.capability.action, not entry.performs))]


def _view(entry: WorkerCapability) -> m.CapabilityView:
    capability, rule = entry.capability, entry.rule
    return m.CapabilityView(
        action=capability.action,
        worker=entry.worker.name,
        summary=capability.summary,
        version=capability.version,
        required=capability.required,
        sensitive=capability.sensitive,
        allowed=entry.allowed,
        preferred=entry.preferred,
        performs=entry.performs,
        timeout_s=capability.timeout_s,
        at_once=capability.at_once,
        input_schema=schema_of(capability.input),
        reason=rule.reason if rule else None,
        decided_by=rule.decided_by if rule else None,
        decided_at=rule.decided_at if rule else None,
    )
