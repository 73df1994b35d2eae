"""Which worker may perform which action: decided by the tenant, one action of one worker at a time."""

from collections.abc import Sequence

from dragoman.context import Caller
from dragoman.infra.db import scope_of
from dragoman.operations import Page
from dragoman.services.tasks.actions.errors import CapabilityNotFound, NotDeclared, WorkerNotFound
from dragoman.services.workers import models as m
from dragoman.services.workers.registry import CapabilityRegistry
from dragoman.services.workers.routing import Offer, Table
from dragoman.services.workers.schemas import schema_of
from dragoman.services.workers.service import AfterCommit
from dragoman.services.workers.store import Rule, WorkerStore


class Allowances:
    """Shows and changes what the workers of a tenant may do."""

    def __init__(self, store: WorkerStore, registry: CapabilityRegistry, *, after_commit: AfterCommit) -> None:
        self._store = store
        self._registry = registry
        self._after_commit = after_commit

    async def list(self, caller: Caller, wanted: m.ListCapabilities) -> Page[m.CapabilityView]:
        """Every action of every worker, by action; the one that performs it first."""
        shown = _views(await self._registry.table(caller), wanted.action)
        return Page(items=[one for one in shown if wanted.allowed in (None, one.allowed)])

    async def allow(self, caller: Caller, given: m.AllowCapability) -> m.CapabilityDecision:
        """Let a worker perform an action; who is preferred takes that from whoever was.

        Raises:
            WorkerNotFound: the tenant has no such worker.
            NotDeclared: it does not perform the action.
        """
        await self._declared(caller, given.action, given.worker)
        rule = Rule(
            given.action, given.worker, allowed=True, preferred=given.prefer, reason=given.reason,
            decided_by=caller.subject,
        )  # fmt: skip
        return await self._decide(caller, given.action, [rule])

    async def deny(self, caller: Caller, given: m.DenyCapability) -> m.CapabilityDecision:
        """Let a worker perform an action no more; without a worker, all that perform it today.

        Raises:
            WorkerNotFound: the tenant has no such worker.
            NotDeclared: it does not perform the action.
            CapabilityNotFound: nobody does.
        """
        if given.worker is not None:
            await self._declared(caller, given.action, given.worker)
        table = await self._registry.table(caller)
        names = [offer.worker.name for offer in table.offers if offer.capability.action == given.action]
        if not names:
            raise CapabilityNotFound(given.action)
        rules = [
            Rule(given.action, name, allowed=False, reason=given.reason, decided_by=caller.subject)
            for name in names
            if given.worker in (None, name)
        ]
        return await self._decide(caller, given.action, rules)

    async def _decide(self, caller: Caller, action: str, rules: Sequence[Rule]) -> m.CapabilityDecision:
        await self._store.decide(scope_of(caller), rules)

        async def forget() -> None:
            self._registry.forget(caller.tenant)

        await self._after_commit(forget)
        views = _views(await self._registry.read(caller), action)
        return m.CapabilityDecision(
            action=action,
            performed_by=next((one.worker for one in views if one.performs), None),
            capabilities=views,
        )

    async def _declared(self, caller: Caller, action: str, worker: str) -> None:
        offers = (await self._registry.table(caller)).offers
        if any(offer.worker.name == worker and offer.capability.action == action for offer in offers):
            return
        # A worker may be registered and declare nothing of what was asked.
        if not any(offer.worker.name == worker for offer in offers):
            raise WorkerNotFound(worker)
        raise NotDeclared(worker, action)


def _views(table: Table, action: str | None) -> list[m.CapabilityView]:
    offers = [offer for offer in table.offers if action in (None, offer.capability.action)]
    return [_view(one) for one in sorted(offers, key=lambda one: (one.capability.action, not one.performs))]


def _view(offer: Offer) -> m.CapabilityView:
    capability, rule = offer.capability, offer.rule
    return m.CapabilityView(
        action=capability.action,
        worker=offer.worker.name,
        summary=capability.summary,
        version=capability.version,
        required=capability.required,
        sensitive=capability.sensitive,
        allowed=offer.allowed,
        preferred=offer.preferred,
        performs=offer.performs,
        timeout_s=capability.timeout_s,
        at_once=capability.at_once,
        input_schema=schema_of(capability.input),
        reason=rule.reason if rule else None,
        decided_by=rule.decided_by if rule else None,
        decided_at=rule.decided_at if rule else None,
    )
