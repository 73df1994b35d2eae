"""Rules of subscriptions: what can be subscribed to, where to, and who answers for it."""

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound, Stale
from dragoman.infra.auth.vault import Vault
from dragoman.infra.db import Scope, scope_of
from dragoman.infra.outbound import Guard
from dragoman.infra.outbound.signing import new_signing_secret
from dragoman.operations import Page, page
from dragoman.services.subscriptions import models as m
from dragoman.services.subscriptions.errors import NotActive, TooManySubscriptions
from dragoman.services.subscriptions.event_types import SUBSCRIPTION_TEST
from dragoman.services.subscriptions.sender import place_of
from dragoman.services.subscriptions.store import Record, SubscriptionStore
from dragoman.services.tasks.identity import caller_json

MOST_SUBSCRIPTIONS: Final = 200


class Sends(Protocol):
    """Sends deliveries; the deliverer of the process does."""

    @property
    def worker(self) -> UUID:
        """Who leases them."""
        ...

    @property
    def lease(self) -> timedelta:
        """For how long."""
        ...

    def wake(self) -> None:
        """Look for what is due."""
        ...

    async def send_once(self, tenant: UUID, delivery_id: UUID) -> None:
        """Send one that is leased, now."""
        ...


class Commits(Protocol):
    """Calls back after a commit; the database does."""

    async def after_commit(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call back once the open unit is committed."""
        ...


class SubscriptionService:
    """Keeps the subscriptions of tenants. `event_types` are those that there are, each with what it tells."""

    def __init__(
        self,
        store: SubscriptionStore,
        db: Commits,
        *,
        guard: Guard,
        vault: Vault,
        sends: Sends,
        event_types: Mapping[str, str],
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._db = db
        self._guard = guard
        self._vault = vault
        self._sends = sends
        self._patterns = sorted({"*", *event_types, *(f"{one.partition('.')[0]}.*" for one in event_types)})
        self._new_id = new_id

    async def check_new(self, caller: Caller, new: m.CreateSubscription) -> m.CreateSubscription:
        """Refuse an address or types of events before anything is written.

        Raises:
            InvalidInput: there are no such events.
            OutboundRefused: the address must not be reached.
        """
        del caller
        self._check_events(new.events)
        await self._guard.check(new.url)
        return new

    async def check_change(self, caller: Caller, change: m.UpdateSubscription) -> m.UpdateSubscription:
        """Refuse an address or types of events before anything is written.

        Raises:
            InvalidInput: there are no such events.
            OutboundRefused: the address must not be reached.
        """
        del caller
        if change.events is not None:
            self._check_events(change.events)
        if change.url is not None:
            await self._guard.check(change.url)
        return change

    async def create(self, caller: Caller, new: m.CreateSubscription) -> m.NewSubscriptionSecret:
        """Subscribe; the secret is in the answer, this once.

        Raises:
            TooManySubscriptions: the tenant has enough.
        """
        subscription_id, secret = self._new_id(), new_signing_secret()
        row = await self._store.add(
            scope_of(caller),
            subscription_id,
            new,
            secret=self._seal(caller, subscription_id, secret),
            caller=caller_json(caller),
            most=MOST_SUBSCRIPTIONS,
        )
        if row is None:
            raise TooManySubscriptions(limit=MOST_SUBSCRIPTIONS)
        return m.NewSubscriptionSecret.model_validate({**row, "secret": secret})

    async def list(self, caller: Caller, query: m.ListSubscriptions) -> Page[m.Subscription]:
        """Return subscriptions, newest first."""
        state = query.state.value if query.state else None
        rows = await self._store.list_page(scope_of(caller), query.limit + 1, query.cursor, state)
        return page([m.Subscription.model_validate(row) for row in rows], query.limit)

    async def get(self, caller: Caller, ref: m.SubscriptionRef) -> m.Subscription:
        """Return one subscription.

        Raises:
            NotFound: the tenant has none with this id.
        """
        return m.Subscription.model_validate(await self._get(caller, ref.subscription_id))

    async def update(self, caller: Caller, change: m.UpdateSubscription) -> m.Subscription:
        """Change, pause or activate a subscription; the caller answers for it from now on.

        Raises:
            NotFound: the tenant has none with this id.
            Stale: it is no longer at the expected version.
        """
        current = await self._get(caller, change.subscription_id)
        row = await self._store.change(
            scope_of(caller),
            change.subscription_id,
            url=change.url,
            events=sorted(set(change.events)) if change.events is not None else None,
            description=change.description,
            active=change.active,
            caller=caller_json(caller),
            version=change.expected_version,
        )
        if row is None:
            raise Stale("subscription", expected=change.expected_version or 0, current=current["version"])
        await self._wake_later()
        return m.Subscription.model_validate(row)

    async def rotate(self, caller: Caller, given: m.RotateSecret) -> m.NewSubscriptionSecret:
        """Replace the secret; the one before signs too until the grace is over.

        Raises:
            NotFound: the tenant has no subscription with this id.
        """
        secret = new_signing_secret()
        sealed = self._seal(caller, given.subscription_id, secret)
        row = await self._store.rotate(
            scope_of(caller), given.subscription_id, secret=sealed, grace=timedelta(seconds=given.grace_s)
        )
        if row is None:
            raise NotFound("subscription", given.subscription_id)
        return m.NewSubscriptionSecret.model_validate({**row, "secret": secret})

    async def remove(self, caller: Caller, ref: m.SubscriptionRef) -> m.RemovedSubscription:
        """Remove a subscription with its deliveries.

        Raises:
            NotFound: the tenant has none with this id.
        """
        if not await self._store.remove(scope_of(caller), ref.subscription_id):
            raise NotFound("subscription", ref.subscription_id)
        return m.RemovedSubscription(id=ref.subscription_id)

    async def test(self, caller: Caller, ref: m.SubscriptionRef) -> m.Delivery:
        """Send a test event now, whatever state the subscription is in, and return what became of it.

        Raises:
            NotFound: the tenant has none with this id.
        """
        delivery_id, scope = self._new_id(), scope_of(caller)
        if not await self._store.add_test(
            scope,
            ref.subscription_id,
            delivery_id,
            event_type=SUBSCRIPTION_TEST,
            worker=self._sends.worker,
            lease=self._sends.lease,
        ):
            raise NotFound("subscription", ref.subscription_id)
        await self._sends.send_once(caller.tenant, delivery_id)
        return await self._delivery(scope, delivery_id)

    async def list_deliveries(self, caller: Caller, query: m.ListDeliveries) -> Page[m.DeliverySummary]:
        """Return deliveries of a subscription, newest first.

        Raises:
            NotFound: the tenant has no subscription with this id.
        """
        await self._get(caller, query.subscription_id)
        rows = await self._store.list_deliveries(
            scope_of(caller),
            query.limit + 1,
            query.subscription_id,
            before=query.cursor,
            state=query.state.value if query.state else None,
            event_type=query.type,
        )
        return page([m.DeliverySummary.model_validate(row) for row in rows], query.limit)

    async def get_delivery(self, caller: Caller, ref: m.DeliveryRef) -> m.Delivery:
        """Return one delivery.

        Raises:
            NotFound: the tenant has none with this id.
        """
        return await self._delivery(scope_of(caller), ref.delivery_id)

    async def redeliver(self, caller: Caller, ref: m.DeliveryRef) -> m.Delivery:
        """Send a delivery again, under the same id.

        Raises:
            NotFound: the tenant has none with this id.
            NotActive: nothing is sent for its subscription.
        """
        delivery = await self._delivery(scope_of(caller), ref.delivery_id)
        subscription = await self._get(caller, delivery.subscription_id)
        if subscription["state"] != m.SubscriptionState.ACTIVE:
            raise NotActive(subscription["state"])
        row = await self._store.redeliver(scope_of(caller), ref.delivery_id)
        if row is None:
            raise NotFound("delivery", ref.delivery_id)
        await self._wake_later()
        return m.Delivery.model_validate(row)

    async def _get(self, caller: Caller, subscription_id: UUID) -> Record:
        row = await self._store.find(scope_of(caller), subscription_id)
        if row is None:
            raise NotFound("subscription", subscription_id)
        return row

    async def _delivery(self, scope: Scope, delivery_id: UUID) -> m.Delivery:
        row = await self._store.find_delivery(scope, delivery_id)
        if row is None:
            raise NotFound("delivery", delivery_id)
        return m.Delivery.model_validate(row)

    async def _wake_later(self) -> None:
        async def wake() -> None:
            self._sends.wake()

        await self._db.after_commit(wake)

    def _seal(self, caller: Caller, subscription_id: UUID, secret: str) -> bytes:
        return self._vault.seal(secret.encode(), place=place_of(caller.tenant, subscription_id))

    def _check_events(self, events: Sequence[str]) -> None:
        for pattern in events:
            if pattern not in self._patterns:
                near = difflib.get_close_matches(pattern, self._patterns, 1, 0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(self._patterns)}"
                raise InvalidInput.of("events", f"no events are called {pattern[:100]!r}; {hint}")
