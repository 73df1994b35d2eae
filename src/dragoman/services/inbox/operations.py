"""What can be done with webhook sources and events."""

from typing import Final

from dragoman.operations import Effect, Operation, Page
from dragoman.services.inbox import models as m

MANAGE, OPERATE = "manage:webhooks", "manage:tasks"
_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
_SKILL: Final = "webhooks"

CREATE = Operation(
    "webhook_source.create", "Register a source of webhooks", m.CreateSource, m.NewSource, MANAGE, Effect.WRITE,
    part_of=_SKILL,
    description="The answer has the `path` to send to and, for hmac, k8s and azure, the secret, shown this once. "
    "`aws` needs topic_arn, `gcp` needs audience and service_account.",
    example={"name": "Billing exports", "provider": "hmac", "account": "123456789012"},
)  # fmt: skip
LIST = Operation(
    "webhook_source.list", "List sources of webhooks", m.ListSources, Page[m.Source], MANAGE, part_of=_SKILL
)
GET = Operation(
    "webhook_source.get", "Show a source of webhooks", m.SourceRef, m.Source, MANAGE, part_of=_SKILL,
    example={"source_id": _ID},
)  # fmt: skip
UPDATE = Operation(
    "webhook_source.update", "Change a source of webhooks", m.UpdateSource, m.Source, MANAGE, Effect.WRITE,
    part_of=_SKILL, example={"source_id": _ID, "name": "Billing exports of production"},
)  # fmt: skip
ROTATE = Operation(
    "webhook_source.rotate", "Give a source of webhooks a new secret", m.RotateSource, m.NewSource, MANAGE,
    Effect.WRITE, part_of=_SKILL,
    description="Those before it are accepted for `grace_s` more, so that the sender can be changed meanwhile.",
    example={"source_id": _ID, "grace_s": 3600},
)  # fmt: skip
REMOVE = Operation(
    "webhook_source.remove", "Remove a source of webhooks and its events", m.SourceRef, m.RemovedSource, MANAGE,
    Effect.DESTRUCTIVE, part_of=_SKILL, example={"source_id": _ID},
)  # fmt: skip
LIST_EVENTS = Operation(
    "webhook_event.list", "List events that webhooks brought", m.ListEvents, Page[m.EventSummary], OPERATE,
    part_of=_SKILL, example={"state": "dead"},
)  # fmt: skip
GET_EVENT = Operation(
    "webhook_event.get", "Show an event that a webhook brought", m.EventRef, m.Event, OPERATE, part_of=_SKILL,
    example={"webhook_event_id": _ID},
)  # fmt: skip
REPLAY_EVENT = Operation(
    "webhook_event.replay", "Process an event again", m.EventRef, m.EventSummary, OPERATE, Effect.WRITE,
    part_of=_SKILL,
    description="For a dead event, once the cause is removed; or for one that was processed or ignored. It comes "
    "before what its source sent later.",
    example={"webhook_event_id": _ID},
)  # fmt: skip
