"""What is handed over: who asks for which action on what, in which matter, under which policies and approvals."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, model_validator

from dragoman.infra.digests import digest_of
from dragoman.operations import Input

ACTION = r"^[a-z][a-z0-9_]{0,49}(\.[a-z][a-z0-9_]{0,49}){1,3}$"


class ActorType(StrEnum):
    """What kind of principal acts."""

    HUMAN = "human"
    AGENT = "agent"
    SERVICE = "service"


class Confidentiality(StrEnum):
    """How widely a matter may be known."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"


class Actor(Input):
    """Who acts; it must agree with the credentials."""

    id: str = Field(min_length=1, max_length=200, description="The caller's own subject, or one it may act for.")
    type: ActorType
    tenant_id: str | None = Field(None, max_length=100, description="Its tenant; the caller's when given at all.")
    on_behalf_of: str | None = Field(None, max_length=200, description="For whom it acts; a claim without a grant.")


class Resource(Input):
    """What is acted on."""

    type: str = Field(min_length=1, max_length=100, examples=["document"])
    id: str = Field(min_length=1, max_length=200)
    version: str | None = Field(None, max_length=100)
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$", description="Of its content, where it has one.")
    uri: str | None = Field(None, max_length=2000)


class Matter(Input):
    """The business that it belongs to."""

    id: str = Field(min_length=1, max_length=200)
    title: str | None = Field(None, max_length=500)
    client: str | None = Field(None, max_length=500)
    jurisdiction: str | None = Field(None, max_length=200)
    confidentiality: Confidentiality | None = None


class PolicyRef(Input):
    """A policy that the actor says it acts under; `id@version` is the short form."""

    id: str = Field(min_length=1, max_length=200)
    version: str | None = Field(
        None, max_length=100, description="The version that was read; the one in force if absent."
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        name, _, version = given.partition("@")
        return {"id": name, "version": version or None}


class GovernanceContext(Input):
    """The policies and approvals that the action rests on."""

    policy_refs: list[PolicyRef] = Field(default_factory=list[PolicyRef], max_length=50)
    approval_refs: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default_factory=list[str], max_length=50, description="Approval requests, decided or not."
    )


class RequestMetadata(Input):
    """About the request and not about the action."""

    correlation_id: str | None = Field(None, min_length=1, max_length=200)
    submitted_at: AwareDatetime | None = None
    transport: str | None = Field(None, max_length=50)
    deadline: AwareDatetime | None = Field(None, description="When it is too late; the task then fails.")
    dry_run: bool = Field(default=False, description="Go through every guard and change nothing.")
    queue_key: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Tasks of a tenant with the same key run one after another, in the order of their acceptance.",
    )


class Envelope(Input):
    """A consequential action, handed over as a whole."""

    envelope_version: Literal["1"]
    actor: Actor
    action: str = Field(pattern=ACTION, examples=["signature.send"])
    resource: Resource
    matter: Matter
    governance: GovernanceContext = Field(default_factory=GovernanceContext)
    idempotency_key: str = Field(min_length=1, max_length=200)
    request: RequestMetadata = Field(default_factory=lambda: RequestMetadata.model_validate({}))
    input: dict[str, Any] = Field(default_factory=dict[str, Any])

    def digest(self) -> bytes:
        """Return the digest of the envelope without `request` and `governance`, which may differ in a repetition."""
        return digest_of("task.submit", self.model_dump(mode="json", exclude={"request", "governance"}))


def fifo_key_of(envelope: dict[str, Any]) -> str | None:
    """Return the key by which an action, whose envelope is kept as this, waits for others; None where it does not."""
    key = envelope.get("request", {}).get("queue_key")
    return f"queue:{key}" if key else None


def digest_of_action(
    action: str, resource: Resource, matter_id: str, given: dict[str, Any], facts: dict[str, Any] | None = None
) -> str:
    """Return what an approval is bound to: this action, on this resource, in this matter, with this input.

    `facts` are what else is known of the resource, such as who is to sign it.
    """
    shown = resource.model_dump(mode="json", exclude_none=True)
    bound = {"action": action, "resource": shown, "matter": matter_id, "input": given}
    return digest_of("approval", bound | ({"facts": facts} if facts else {})).hex()
