"""Webhook sources and events: what the operations take and give."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import Field, SecretStr, StringConstraints, model_validator

from dragoman.operations import Input, ListInput, Output
from dragoman.text import Name

LONGEST_GRACE_S: Final = 86_400 * 7


class Provider(StrEnum):
    """How a source proves itself."""

    HMAC = "hmac"
    AWS = "aws"
    GCP = "gcp"
    AZURE = "azure"
    K8S = "k8s"


# Those that prove themselves by a secret that both sides know.
SECRETIVE: Final = frozenset({Provider.HMAC, Provider.K8S, Provider.AZURE})

Account = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[!-~]+$"),
    Field(description="The account that its events are about, such as the id of a cloud account."),
]
Secret = Annotated[
    SecretStr,
    Field(
        min_length=16,
        max_length=200,
        description="A secret of your own, where the sender chose it; unset, one is made. With the prefix `whsec_` "
        "the rest is base64 (Standard Webhooks).",
    ),
]
TopicArn = Annotated[
    str,
    StringConstraints(pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]{1,40}:\d{12}:[A-Za-z0-9_.-]{1,256}$"),
    Field(description="The SNS topic; only its messages are taken. For `aws`.", examples=["arn:aws:sns:...:costs"]),
]
Audience = Annotated[
    str,
    StringConstraints(min_length=1, max_length=500),
    Field(description="The audience of the tokens of the Pub/Sub push subscription. For `gcp`."),
]
ServiceAccount = Annotated[
    str,
    StringConstraints(pattern=r"^[^@\s]{1,100}@[a-z0-9.-]{3,150}$"),
    Field(description="The e-mail address of the service account that Pub/Sub pushes as. For `gcp`."),
]
_NEEDED: Final[dict[Provider, tuple[str, ...]]] = {
    Provider.AWS: ("topic_arn",),
    Provider.GCP: ("audience", "service_account"),
}
SETTINGS: Final = ("topic_arn", "audience", "service_account")


def check_settings(provider: Provider, values: dict[str, Any]) -> None:
    """Refuse settings of another provider, and demand those of this one."""
    needed = _NEEDED.get(provider, ())
    missing = [name for name in needed if values.get(name) is None]
    foreign = [name for name in SETTINGS if values.get(name) is not None and name not in needed]
    if missing:
        raise ValueError(f"a source of {provider.value} needs {' and '.join(missing)}")
    if foreign:
        raise ValueError(f"a source of {provider.value} has no {' and no '.join(foreign)}")


class CreateSource(Input):
    """A source of webhooks."""

    name: Name = Field(description="What the source is called.", examples=["Billing exports of production"])
    provider: Provider = Field(description="How it proves itself: hmac, aws (SNS), gcp (Pub/Sub), azure, k8s.")
    account: Account | None = None
    secret: Secret | None = None
    topic_arn: TopicArn | None = None
    audience: Audience | None = None
    service_account: ServiceAccount | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_settings(self.provider, self.model_dump(include=set(SETTINGS)))
        if self.secret is not None and self.provider not in SECRETIVE:
            raise ValueError(f"a source of {self.provider.value} has no secret: it is verified by the provider's keys")
        return self


class SourceRef(Input):
    """One source of the caller's tenant."""

    source_id: UUID = Field(description="The source's id.")


class ListSources(ListInput):
    """Some sources."""

    provider: Provider | None = Field(None, description="Only those of this provider.")


class UpdateSource(SourceRef):
    """What to change; what is left out stays."""

    name: Name | None = Field(None, description="A new name.")
    account: Account | None = None
    topic_arn: TopicArn | None = None
    audience: Audience | None = None
    service_account: ServiceAccount | None = None
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the source has moved on from this version."
    )


class RotateSource(SourceRef):
    """A further secret."""

    secret: Secret | None = None
    grace_s: int = Field(86_400, ge=0, le=LONGEST_GRACE_S, description="How long the secrets before it go on working.")


class LiveSecret(Output):
    """A secret that is accepted now, without the secret itself."""

    hint: str = Field(description="The end of the secret.")
    until: datetime | None = Field(description="When it ends; null for the newest.")


class Source(Output):
    """A source of webhooks."""

    id: UUID
    name: str
    provider: Provider
    account: str | None
    path: str = Field(description="Where it sends to, at the address of this server.")
    topic_arn: str | None = None
    audience: str | None = None
    service_account: str | None = None
    secrets: list[LiveSecret] = Field(description="The secrets that are accepted now, newest first.")
    version: int
    created_by: str
    created_at: datetime
    updated_at: datetime


class NewSource(Source):
    """A source with its newest secret, which is shown this once."""

    secret: str | None = Field(description="Null for providers without one, and when the request is repeated.")

    def without_secrets(self) -> "NewSource":
        """Return it without the secret."""
        return self.model_copy(update={"secret": None})


class RemovedSource(Output):
    """A source that is gone, with its events."""

    id: UUID


class EventState(StrEnum):
    """A `received` event waits or is tried again; `ignored` means that nothing handles its topic."""

    RECEIVED = "received"
    PROCESSED = "processed"
    IGNORED = "ignored"
    DEAD = "dead"


class EventRef(Input):
    """One event of the caller's tenant."""

    webhook_event_id: UUID = Field(description="The id that the answer to the webhook had.")


class ListEvents(ListInput):
    """Some events."""

    source_id: UUID | None = Field(None, description="Only those of this source.")
    state: EventState | None = Field(None, description="Only those in this state.")
    topic: str | None = Field(None, max_length=200, description="Only those of this topic.")


class EventSummary(Output):
    """An event in a list."""

    id: UUID
    source_id: UUID
    event_id: str = Field(description="What its sender calls it.")
    type: str
    topic: str
    state: EventState
    attempts: int
    next_at: datetime | None = Field(description="When a waiting event is tried next.")
    error: dict[str, Any] | None = Field(description="Why its last attempt failed.")
    received_at: datetime
    ended_at: datetime | None


class Event(EventSummary):
    """An event with what was sent."""

    payload: Any = Field(description="The payload, as its sender signed it.")
