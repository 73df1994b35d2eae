"""Webhooks of providers: believed when they are signed, kept as they came, and applied once."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final
from uuid import UUID

import structlog

from dragoman.context import ourselves
from dragoman.errors import DragomanError, Unauthenticated
from dragoman.infra.db import Scope
from dragoman.jsontext import parse_json
from dragoman.services.signatures.providers import Providers
from dragoman.services.signatures.states import Status
from dragoman.services.signatures.store import SignatureStore
from dragoman.services.signatures.store_providers import BacklogStore, ProviderStore
from dragoman.services.signatures.tracker import Tracker

_LOG = structlog.get_logger(__name__)
_MOST_AT_ONCE: Final = 100
_FIRST_WAIT_S, _LONGEST_WAIT_S = 15.0, 3600.0


@dataclass(frozen=True, slots=True)
class Receipt:
    """That a webhook is kept; `duplicate` when it came before."""

    id: UUID
    duplicate: bool


class WebhookService:
    """Takes what providers tell, and what was left undone. `news` is set when there is something to fetch."""

    def __init__(
        self,
        store: ProviderStore,
        backlog: BacklogStore,
        signatures: SignatureStore,
        tracker: Tracker,
        providers: Providers,
        *,
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._backlog = backlog
        self._signatures = signatures
        self._tracker = tracker
        self._providers = providers
        self._new_id = new_id
        self._waits: dict[UUID, tuple[int, float]] = {}
        self.news = asyncio.Event()

    async def receive(self, provider: str, configuration: str, headers: Mapping[str, str], body: bytes) -> Receipt:
        """Keep a webhook, then do what it says. Whose it is follows from the configuration that its address names.

        Raises:
            Unauthenticated: there is no such configuration, or it is not signed with a key of that one.
            InvalidInput: it is not JSON that could be kept.
        """
        try:
            configuration_id = UUID(configuration)
        except ValueError:
            raise Unauthenticated("the webhook names no configuration") from None
        tenant = await self._backlog.find_owner(configuration_id, provider)
        if tenant is None:
            raise Unauthenticated(f"there is no configuration {configuration_id} of {provider!r}")
        if await self._providers.find_authentic(tenant, configuration_id, headers, body) is None:
            raise Unauthenticated(f"the webhook for {configuration_id} is not signed with one of its keys")
        parse_json(body)
        receipt = Receipt(self._new_id(), duplicate=False)
        digest = hashlib.sha256(body).digest()
        if not await self._store.add_webhook(Scope(tenant), receipt.id, configuration_id, digest=digest, body=body):
            return Receipt(receipt.id, duplicate=True)
        # It is kept: what fails from here on is taken up again by the sweep.
        await self._attempt(receipt.id, self.apply(tenant, receipt.id))
        return receipt

    async def apply(self, tenant: UUID, webhook_id: UUID) -> None:
        """Do what a webhook says, unless it was done."""
        scope = Scope(tenant)
        kept = await self._store.find_webhook(scope, webhook_id)
        if kept is None or kept["outcome"] is not None:
            return
        configuration = await self._store.get(scope, kept["configuration_id"])
        if configuration is None:
            await self._store.close_webhook(scope, webhook_id, "no configuration", None)
            return
        try:
            event = self._providers.read_event(configuration.provider, kept["body"])
        except ValueError:
            await self._store.close_webhook(scope, webhook_id, "unreadable", None)
            return
        if event is None:
            await self._store.close_webhook(scope, webhook_id, "of no concern", None)
            return
        row = await self._signatures.find_at_provider(scope, configuration.provider, ref=event.ref, key=event.key)
        if row is None:
            await self._store.close_webhook(scope, webhook_id, "unknown request", None)
            return
        row = await self._tracker.apply(ourselves(tenant), row, event.news, source="webhook")
        await self._store.close_webhook(scope, webhook_id, "applied", row["id"])
        if row["status"] == Status.COMPLETED:
            self.news.set()

    async def sweep(self) -> None:
        """Take up what was left undone: webhooks that nobody looked at, and signed documents still at a provider.

        What fails is left for a while, and for longer each time.
        """
        for tenant, webhook_id in await self._backlog.list_webhooks(_MOST_AT_ONCE):
            await self._attempt(webhook_id, self.apply(tenant, webhook_id))
        for tenant, signature_id in await self._backlog.list_to_fetch(_MOST_AT_ONCE):
            if self._waits.get(signature_id, (0, 0.0))[1] <= monotonic():
                await self._attempt(signature_id, self._collect(tenant, signature_id))

    async def _collect(self, tenant: UUID, signature_id: UUID) -> None:
        caller = ourselves(tenant)
        await self._tracker.collect(caller, await self._tracker.get(caller, signature_id))

    async def _attempt(self, which: UUID, work: Awaitable[None]) -> None:
        try:
            await work
        except DragomanError as error:
            failures = self._waits.get(which, (0, 0.0))[0]
            wait_s = min(_FIRST_WAIT_S * 2**failures, _LONGEST_WAIT_S)
            self._waits[which] = (failures + 1, monotonic() + wait_s)
            _LOG.warning("signatures.left_for_later", id=str(which), reason=error.message, wait_s=wait_s)
        else:
            self._waits.pop(which, None)
