"""Puts webhooks out together: who subscribes to what, and who sends it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from dragoman.app.foundation import Foundation
from dragoman.context import Caller
from dragoman.infra.auth.authority import Authority
from dragoman.infra.config import Settings
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.limits import Admission
from dragoman.infra.outbound import Upstream
from dragoman.operations import Handlers
from dragoman.plugin import installed_plugins
from dragoman.services.audit.statements import Statements
from dragoman.services.subscriptions import operations
from dragoman.services.subscriptions.deliverer import Deliverer, RetryPolicy
from dragoman.services.subscriptions.event_types import CORE_TYPES
from dragoman.services.subscriptions.sender import Sender
from dragoman.services.subscriptions.service import SubscriptionService
from dragoman.services.subscriptions.store import PROMISED, SubscriptionStore
from dragoman.services.subscriptions.store_deliveries import DeliveryStore
from dragoman.services.subscriptions.store_outbox import Outbox

# A lease outlives the longest wait for an answer, with time to spare for the database.
_SPARE_S: Final = 10.0


@dataclass(slots=True)
class SubscriptionCore:
    """The deliveries of this process: to be started after the database, and stopped before it."""

    deliverer: Deliverer

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sequence[Job]]:
        """Give the jobs that deliver; what is unfinished at the end is given back."""
        try:
            yield self.deliverer.jobs()
        finally:
            await self.deliverer.stop()


def build_subscriptions(settings: Settings, handlers: Handlers, base: Foundation) -> SubscriptionCore:
    """Build webhooks out, their operations bound."""
    timing = settings.subscriptions
    clients = base.outgoing.of_tenants(Upstream.WEBHOOK, timeout_s=timing.timeout_s, answer_s=timing.timeout_s)
    store = DeliveryStore(
        base.core_db,
        base.core_trail,
        Outbox(base.core_db, new_id=new_id),
        new_id(),
        lease=timedelta(seconds=timing.timeout_s + _SPARE_S),
    )
    deliverer = Deliverer(
        store,
        Sender(clients, base.vault, find_refusal=_refusals(base.admission, base.authority)),
        metrics=base.observers.metrics.subscriptions,
        security=base.observers.security,
        policy=RetryPolicy(
            max_attempts=timing.max_attempts,
            base_s=timing.retry_base_s,
            longest_s=timing.retry_max_s,
            disable_after_s=timing.disable_after_s,
            keep_s=timing.keep_s,
        ),
    )
    types = {
        **CORE_TYPES,
        **{name: tells for plugin in installed_plugins() for name, tells in plugin.publishes.items()},
    }
    service = SubscriptionService(
        SubscriptionStore(base.db, Statements(base.db, base.trail, PROMISED)),
        base.db,
        guard=clients.guard,
        vault=base.vault,
        sends=deliverer,
        event_types=types,
        new_id=new_id,
    )
    handlers.add(operations.CREATE, service.create, prepare=service.check_new)
    handlers.add(operations.LIST, service.list)
    handlers.add(operations.GET, service.get)
    handlers.add(operations.UPDATE, service.update, prepare=service.check_change)
    handlers.add(operations.ROTATE, service.rotate)
    handlers.add(operations.TEST, service.test)
    handlers.add(operations.REMOVE, service.remove)
    handlers.add(operations.LIST_DELIVERIES, service.list_deliveries)
    handlers.add(operations.GET_DELIVERY, service.get_delivery)
    handlers.add(operations.REDELIVER, service.redeliver)
    return SubscriptionCore(deliverer)


def _refusals(admission: Admission, authority: Authority) -> Callable[[Caller], Awaitable[str | None]]:
    async def find_refusal(caller: Caller) -> str | None:
        if await admission.is_revoked(caller):
            return "the credentials that made it, or changed it last, are no longer valid"
        if not authority.permits(caller, operations.UPDATE):
            return f"who made it, or changed it last, no longer has the permission {operations.MANAGE}"
        return None

    return find_refusal
