"""What can be done with subscriptions and their deliveries."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.subscriptions import models as m

MANAGE = "manage:webhooks"
_SKILL = "subscription"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
_DELIVERY = "01890a5d-ac96-774b-bcce-b302099a8058"

CREATE = Operation(
    "subscription.create", "Subscribe a webhook to events", m.CreateSubscription, m.NewSubscriptionSecret, MANAGE,
    Effect.WRITE,
    description="Events of these types are posted to the address from now on, signed with the secret in the answer, "
    "which is shown this once. An event has identifiers and states; contents are read with credentials.",
    example={"url": "https://hooks.example.com/dragoman", "events": ["approval.requested", "task.*"]},
)  # fmt: skip
LIST = Operation("subscription.list", "List subscriptions", m.ListSubscriptions, Page[m.Subscription], MANAGE)
GET = Operation(
    "subscription.get", "Show a subscription", m.SubscriptionRef, m.Subscription, MANAGE,
    example={"subscription_id": _ID},
)  # fmt: skip
UPDATE = Operation(
    "subscription.update", "Change, pause or activate a subscription", m.UpdateSubscription, m.Subscription, MANAGE,
    Effect.WRITE,
    description="One that was disabled, because its receiver failed for long or its maker may no longer, goes on with "
    "`active` true. Nothing is kept for a subscription that is not active.",
    example={"subscription_id": _ID, "active": True},
)  # fmt: skip
ROTATE = Operation(
    "subscription.rotate", "Replace the secret of a subscription", m.RotateSecret, m.NewSubscriptionSecret, MANAGE,
    Effect.WRITE, description="Messages are signed with both secrets until `grace_s` is over.",
    example={"subscription_id": _ID, "grace_s": 3600},
)  # fmt: skip
TEST = Operation(
    "subscription.test", "Send a test event to a subscription", m.SubscriptionRef, m.Delivery, MANAGE, Effect.WRITE,
    long=True, description="Sends a `subscription.test` once, now, and says what the receiver answered.",
    example={"subscription_id": _ID},
)  # fmt: skip
REMOVE = Operation(
    "subscription.remove", "Remove a subscription", m.SubscriptionRef, m.RemovedSubscription, MANAGE,
    Effect.DESTRUCTIVE, description="With its deliveries, those that were not made too.",
    example={"subscription_id": _ID},
)  # fmt: skip
LIST_DELIVERIES = Operation(
    "delivery.list", "List deliveries of a subscription", m.ListDeliveries, Page[m.DeliverySummary], MANAGE,
    part_of=_SKILL, example={"subscription_id": _ID, "state": "failed"},
)  # fmt: skip
GET_DELIVERY = Operation(
    "delivery.get", "Show a delivery with its attempts", m.DeliveryRef, m.Delivery, MANAGE, part_of=_SKILL,
    example={"delivery_id": _DELIVERY},
)  # fmt: skip
REDELIVER = Operation(
    "delivery.redeliver", "Send a delivery again", m.DeliveryRef, m.Delivery, MANAGE, Effect.WRITE, part_of=_SKILL,
    description="Under the same `webhook-id`, with as many attempts as a new one has.",
    example={"delivery_id": _DELIVERY},
)  # fmt: skip
