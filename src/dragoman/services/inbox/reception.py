"""Receives webhooks: verified against their source, stored once, and answered when they are durable.

Nothing is believed before it is verified; what is not verified is neither stored nor read further.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from dragoman.errors import DragomanError, RateLimited, TooLarge, Unauthenticated
from dragoman.infra.batching import Batcher
from dragoman.infra.limits import Limit, Limiter
from dragoman.services.inbox.event_grid import EventGridSenders
from dragoman.services.inbox.hmac_senders import HmacSenders
from dragoman.services.inbox.models import Provider
from dragoman.services.inbox.ports import Arrival, Counts, Delivery, Handshake, Receipt
from dragoman.services.inbox.pubsub import PubSubSenders
from dragoman.services.inbox.queue import Queue
from dragoman.services.inbox.secrets import SecretBox
from dragoman.services.inbox.sns import SnsSenders
from dragoman.services.inbox.store_events import InboxStore, KeptSource, NewEvent


@dataclass(frozen=True, slots=True)
class Senders:
    """How each provider proves itself."""

    hmac: HmacSenders
    sns: SnsSenders
    pubsub: PubSubSenders
    event_grid: EventGridSenders


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large a webhook may be, and how many of one source are taken in a minute."""

    most_bytes: int
    per_min: int


class Reception:
    """Takes deliveries."""

    def __init__(
        self,
        store: InboxStore,
        queue: Queue,
        box: SecretBox,
        senders: Senders,
        limiter: Limiter,
        metrics: Counts,
        bounds: Bounds,
        new_id: Callable[[], UUID],
    ) -> None:
        self._queue = queue
        self._box = box
        self._senders = senders
        self._limiter = limiter
        self._metrics = metrics
        self._bounds = bounds
        self._new_id = new_id
        self._lookups: Batcher[UUID, KeptSource | None] = Batcher(self._look_up)
        self._arrivals: Batcher[NewEvent, tuple[UUID, bool] | None] = Batcher(store.add, lanes=1)
        self._store = store

    async def receive(self, delivery: Delivery) -> Receipt | Handshake:
        """Verify and store a delivery; it is durable when this returns.

        Raises:
            Unauthenticated: it is not verified, for whatever reason.
            TooLarge, UnsupportedMedia, InvalidInput: it cannot be read.
            RateLimited: its source sends too much.
            UpstreamUnavailable: what is needed to verify or store it is away.
        """
        provider = delivery.provider
        try:
            if len(delivery.body) > self._bounds.most_bytes:
                raise TooLarge(limit_bytes=self._bounds.most_bytes)
            source = await self._get(delivery)
            found = await self._verify(delivery, source)
            if isinstance(found, Handshake):
                return found
            await self._admit(source)
            receipt = await self._keep(source, found)
        except Unauthenticated:
            self._metrics.received(provider, "rejected")
            raise
        except RateLimited:
            self._metrics.received(provider, "limited")
            raise
        except DragomanError:
            self._metrics.received(provider, "invalid")
            raise
        self._metrics.received(provider, "duplicate" if receipt.duplicate else "accepted")
        return receipt

    async def _get(self, delivery: Delivery) -> KeptSource:
        try:
            source_id = UUID(delivery.target)
        except ValueError:
            raise Unauthenticated("the address names no source") from None
        source = await self._lookups.put(source_id)
        if source is None or source.provider != delivery.provider:
            raise Unauthenticated(f"there is no source {source_id} of {delivery.provider}")
        return source

    async def _verify(self, delivery: Delivery, source: KeptSource) -> list[Arrival] | Handshake:
        held, now = self._box.open(source.tenant, source.id, source.secrets), time.time()
        match source.provider:
            case Provider.AWS:
                return await self._senders.sns.verify(delivery, source.tenant, source.settings["topic_arn"], now=now)
            case Provider.GCP:
                return await self._senders.pubsub.verify(delivery, source.settings)
            case Provider.AZURE:
                return self._senders.event_grid.verify(delivery, held)
            case _:
                return self._senders.hmac.verify(delivery, held, now=now)

    async def _admit(self, source: KeptSource) -> None:
        """Count a delivery that was verified: nobody else can use the limit up."""
        verdict = await self._limiter.check(
            f"webhooks:{source.id}", (Limit("webhook-source", "", self._bounds.per_min),)
        )
        if not verdict.allowed:
            raise RateLimited("webhook-source", retry_after_s=verdict.retry_after_s)

    async def _keep(self, source: KeptSource, arrivals: Sequence[Arrival]) -> Receipt:
        new = [NewEvent(source.tenant, self._new_id(), source.id, arrival) for arrival in arrivals]
        kept = [await done for done in [self._arrivals.begin(event) for event in new]]
        stored = [one for one in kept if one is not None]
        if len(stored) < len(kept):
            raise Unauthenticated("the source was removed")
        duplicate = all(again for _, again in stored)
        if not duplicate:
            self._queue.wake(source.id)
        return Receipt([event_id for event_id, _ in stored], duplicate)

    async def _look_up(self, ids: Sequence[UUID]) -> Sequence[KeptSource | None]:
        found = await self._store.find_sources(list(dict.fromkeys(ids)))
        return [found.get(source_id) for source_id in ids]
