"""Puts webhooks in together: sources, verification, the queue of events, and who handles them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Final

import jwt

from dragoman.app.foundation import Foundation
from dragoman.app.signatures import SignatureCore
from dragoman.context import Caller
from dragoman.doors.webhooks.door import Receiver, WebhookDoor
from dragoman.gate import Gate
from dragoman.infra.auth.jwks import Jwks
from dragoman.infra.config import Settings
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Clients, TenantClients, Upstream
from dragoman.operations import Handlers
from dragoman.plugin import Vertical
from dragoman.services.inbox import operations
from dragoman.services.inbox.event_grid import EventGridSenders
from dragoman.services.inbox.events import EventService
from dragoman.services.inbox.hmac_senders import HmacSenders
from dragoman.services.inbox.models import Provider
from dragoman.services.inbox.ports import EventHandler, Json
from dragoman.services.inbox.pubsub import PubSubSenders
from dragoman.services.inbox.queue import Queue
from dragoman.services.inbox.reception import Bounds, Reception, Senders
from dragoman.services.inbox.secrets import SecretBox
from dragoman.services.inbox.sns import SnsSenders
from dragoman.services.inbox.sources import SourceService
from dragoman.services.inbox.store_events import EventStore, InboxStore
from dragoman.services.inbox.store_sources import SourceStore
from dragoman.services.inbox.worker import InboxWorker, Patience
from dragoman.services.tasks import operations as tasks

_SENDER_TIMEOUT_S: Final = 5.0


@dataclass(slots=True)
class InboxCore:
    """Webhooks in: to be started after the database, and stopped before it."""

    reception: Reception
    queue: Queue
    worker: InboxWorker
    clients: TenantClients

    @property
    def receivers(self) -> dict[str, Receiver]:
        """Who takes the webhooks of which provider."""
        return dict.fromkeys((provider.value for provider in Provider), self.reception.receive)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sequence[Job]]:
        """Give the job that hands over what waits."""
        try:
            yield [self.queue.job]
        finally:
            await self.clients.aclose()


class _Submissions:
    """Hands over tasks as the server itself, which no quota of a tenant counts."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __call__(self, caller: Caller, envelope: Json) -> None:
        included = self._gate.include(tasks.SUBMIT, caller)
        await self._gate.run(tasks.SUBMIT, caller, {"envelope": envelope}, admitted=included)


class _GoogleKeys:
    """The keys of Google; they are no upstream of a server that has no source of Google."""

    def __init__(self, url: str, outgoing: Clients) -> None:
        self._url = url
        self._outgoing = outgoing

    @cached_property
    def _keys(self) -> Jwks:
        return Jwks(url=self._url, issuer=None, outgoing=self._outgoing, upstream=Upstream.WEBHOOK_KEYS)

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        return await self._keys.find(key_id)


def build_inbox(
    settings: Settings, handlers: Handlers, base: Foundation, gate: Gate, verticals: Sequence[Vertical]
) -> InboxCore:
    """Build the inbox, its operations bound; the handlers of events are those of the verticals."""
    chosen, metrics = settings.webhooks, base.observers.metrics.webhooks
    store, box = InboxStore(base.core_db), SecretBox(base.vault)
    clients = base.outgoing.of_tenants(Upstream.WEBHOOK_SENDER, timeout_s=_SENDER_TIMEOUT_S, answer_s=_SENDER_TIMEOUT_S)
    queue = Queue(store, _Submissions(gate), metrics, keep=timedelta(seconds=chosen.keep_s), new_id=new_id)
    senders = Senders(
        hmac=HmacSenders(chosen.tolerance_s),
        sns=SnsSenders(clients, tolerance_s=chosen.tolerance_s, stand_ins=chosen.sns_hosts),
        pubsub=PubSubSenders(_GoogleKeys(chosen.gcp_jwks_url, base.outgoing)),
        event_grid=EventGridSenders(),
    )
    reception = Reception(
        store,
        queue,
        box,
        senders,
        base.limiter,
        metrics,
        Bounds(chosen.max_bytes, chosen.source_per_min),
        new_id,
    )
    patience = Patience(chosen.retries, chosen.retry_base_s, chosen.retry_max_s)
    worker = InboxWorker(store, queue, _handlers_of(verticals), metrics, patience)
    sources = SourceService(SourceStore(base.db), box, new_id=new_id)
    events = EventService(EventStore(base.db), queue, base.db)
    handlers.add(operations.CREATE, sources.create)
    handlers.add(operations.LIST, sources.list)
    handlers.add(operations.GET, sources.get)
    handlers.add(operations.UPDATE, sources.update)
    handlers.add(operations.ROTATE, sources.rotate)
    handlers.add(operations.REMOVE, sources.remove)
    handlers.add(operations.LIST_EVENTS, events.list)
    handlers.add(operations.GET_EVENT, events.get)
    handlers.add(operations.REPLAY_EVENT, events.replay)
    return InboxCore(reception, queue, worker, clients)


def build_webhook_door(base: Foundation, inbox: InboxCore, signatures: SignatureCore) -> WebhookDoor:
    """Build the door that all webhooks come in by: those of sources, and those of signing providers."""
    signing = dict.fromkeys(signatures.providers, signatures.receive)
    return WebhookDoor(inbox.receivers | signing, base.admission, base.observers.security)


def _handlers_of(verticals: Sequence[Vertical]) -> dict[str, list[EventHandler]]:
    found: dict[str, list[EventHandler]] = {}
    for vertical in verticals:
        for topic, handler in vertical.handles.items():
            found.setdefault(topic, []).append(handler)
    return found
