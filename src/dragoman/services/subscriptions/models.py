"""Subscriptions to events, and what was delivered for them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, StringConstraints

from dragoman.operations import Input, ListInput, Output
from dragoman.text import Text

Url = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2_048),
    Field(
        description="Where events are posted to; https, and reachable from the server.",
        examples=["https://a.example/in"],
    ),
]
Events = Annotated[
    list[Annotated[str, Field(max_length=100)]],
    Field(
        min_length=1,
        max_length=50,
        description="Types of events: one such as `task.finished`, all of a noun such as `task.*`, or `*`.",
    ),
]
Description = Annotated[Text, StringConstraints(max_length=500), Field(description="What it is for, for people.")]


class SubscriptionState(StrEnum):
    """Events are kept for an active one. A paused one was stopped by its owner, a disabled one by the server."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class DeliveryState(StrEnum):
    """A pending one is tried again; a failed one was given up, and can be sent again."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class CreateSubscription(Input):
    """Where to tell of what."""

    url: Url
    events: Events
    description: Description | None = None


class SubscriptionRef(Input):
    """One subscription of the caller's tenant."""

    subscription_id: UUID = Field(description="The subscription's id.")


class ListSubscriptions(ListInput):
    """Some subscriptions."""

    state: SubscriptionState | None = Field(None, description="Only those in this state.")


class UpdateSubscription(SubscriptionRef):
    """What to change; what is left out stays. The caller becomes the one on whose behalf it is delivered to."""

    url: Url | None = None
    events: Events | None = None
    description: Description | None = None
    active: bool | None = Field(None, description="`false` pauses it; `true` goes on, after it was disabled too.")
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the subscription has moved on from this version."
    )


class RotateSecret(SubscriptionRef):
    """A fresh secret."""

    grace_s: int = Field(
        86_400, ge=0, le=86_400 * 7, description="How long the old secret signs too, so that receivers can change over."
    )


class Subscription(Output):
    """A subscription; its secret is never shown again."""

    id: UUID
    url: str
    events: list[str]
    description: str | None
    state: SubscriptionState
    reason: str | None = Field(description="Why the server disabled it.")
    failures: int = Field(description="Attempts in a row that failed.")
    failing_since: datetime | None
    delivered_at: datetime | None = Field(description="About when the receiver took something last.")
    old_secret_ends_at: datetime | None = Field(description="Until then the secret before a rotation signs too.")
    version: int
    created_by: str
    created_at: datetime
    updated_at: datetime


class NewSubscriptionSecret(Subscription):
    """A subscription with its secret, which is shown this once."""

    secret: str | None = Field(description="What signs, `whsec_...`; null when the request is repeated.")

    def without_secrets(self) -> "NewSubscriptionSecret":
        """Return it without the secret."""
        return self.model_copy(update={"secret": None})


class RemovedSubscription(Output):
    """A subscription that is gone, with its deliveries."""

    id: UUID


class ListDeliveries(SubscriptionRef, ListInput):
    """Some deliveries of a subscription, newest first."""

    state: DeliveryState | None = Field(None, description="Only those in this state.")
    type: str | None = Field(None, max_length=100, description="Only events of this type.")


class DeliveryRef(Input):
    """One delivery to a subscription of the caller's tenant."""

    delivery_id: UUID = Field(description="The delivery's id.")


class Attempt(Output):
    """One request to the receiver. `status` is that of its answer, if there was one."""

    at: datetime
    status: int | None = None
    duration_ms: int
    reason: str | None = Field(None, description="Why it did not count as delivered.")


class DeliverySummary(Output):
    """An event on its way to a subscription, as a list has it."""

    id: UUID
    webhook_id: str = Field(description="The header `webhook-id`: the same for every attempt at this event.")
    type: str
    subject: str | None = Field(description="The id of what it is about.")
    state: DeliveryState
    attempts: int = Field(description="How often it was tried since it was last asked for.")
    last: Attempt | None = Field(description="The latest attempt.")
    occurred_at: datetime
    due_at: datetime | None = Field(description="When it is tried next, if it is pending.")


class Delivery(DeliverySummary):
    """A delivery with what is sent and every attempt that is still known, the latest last."""

    subscription_id: UUID
    data: dict[str, Any]
    history: list[Attempt]
