"""Workers and what they may do, as they are registered, allowed and shown."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator

from dragoman.operations import Input, Output
from dragoman.services.tasks.actions.envelope import ACTION
from dragoman.services.workers.remote_input import check_schema
from dragoman.text import Text

_LARGEST_SCHEMA = 20_000
Action = Annotated[str, Field(pattern=ACTION, max_length=200, examples=["signature.send"])]
WorkerName = Annotated[str, Field(min_length=1, max_length=80, examples=["a2a:partner"])]
Reason = Annotated[Text, Field(max_length=500, description="Why; it is kept with the decision.")]
Url = Annotated[str, Field(min_length=8, max_length=2000, examples=["https://agent.example.com"])]
# A credential travels in a header, so it has no line breaks and no other letters than a header has.
Credential = Annotated[SecretStr, Field(min_length=1, max_length=4000)]
Header = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description="The header that carries the credential; in `Authorization` it is a bearer token.",
    ),
]


class WorkerKind(StrEnum):
    """Where a worker is: in this server, or behind one of the protocols."""

    BUILT_IN = "built_in"
    A2A = "a2a"
    MCP = "mcp"


class RemoteKind(StrEnum):
    """What a remote worker speaks."""

    A2A = "a2a"
    MCP = "mcp"


def _small_and_sound(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    if len(orjson.dumps(schema)) > _LARGEST_SCHEMA:
        raise ValueError(f"must not be larger than {_LARGEST_SCHEMA} bytes")
    check_schema(schema)
    return schema


def _by_name(given: Any) -> Any:
    """An action may be given by its name alone."""
    return {"action": given} if isinstance(given, str) else given


class RemoteAction(Input):
    """An action that a remote worker performs, and what it takes."""

    action: Action
    summary: Text = Field("", max_length=500)
    version: str = Field("1", pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,29}$")
    sensitive: bool = Field(
        default=False, description="Needs policies and approvals; what is sensitive in this server always does."
    )
    timeout_s: float = Field(60, ge=1, le=3600, description="An attempt that lasts longer has failed.")
    at_once: int = Field(10, ge=1, le=1000, description="How many may run at once in one process.")
    input_schema: Annotated[dict[str, Any] | None, AfterValidator(_small_and_sound)] = Field(
        None, description="A JSON schema without references and patterns, which the worker checks itself."
    )


Actions = Annotated[list[Annotated[RemoteAction, BeforeValidator(_by_name)]], Field(min_length=1, max_length=100)]


def _plain_credential(given: SecretStr | None) -> SecretStr | None:
    if given is not None and not (given.get_secret_value().isascii() and given.get_secret_value().isprintable()):
        raise ValueError("must be printable ASCII")
    return given


def _each_once(actions: list[RemoteAction] | None) -> list[RemoteAction] | None:
    names = [one.action for one in actions or ()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"must name each action once: {', '.join(twice)}")
    return actions


class RegisterWorker(Input):
    """A worker outside, and what it can do; what it may do is said by `capability.allow`."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="Its kind is put in front: a2a:partner.")
    kind: RemoteKind
    url: Url = Field(description="Of an A2A agent the card or its host, of an MCP server the endpoint.")
    actions: Actions
    credential: Credential | None = Field(None, description="Kept sealed, and never shown again.")
    header: Header = "Authorization"
    enabled: bool = True

    _credential = field_validator("credential")(_plain_credential)
    _actions = field_validator("actions")(_each_once)


class UpdateWorker(Input):
    """What is not given stays as it is."""

    worker: WorkerName
    url: Url | None = Field(None, description="On another host it needs its credential again.")
    actions: Actions | None = None
    credential: Credential | None = None
    header: Header | None = None
    enabled: bool | None = Field(None, description="A worker that is not enabled is given nothing.")
    expected_version: int | None = Field(None, description="Refuse unless this is the present version.")

    _credential = field_validator("credential")(_plain_credential)
    _actions = field_validator("actions")(_each_once)


class WorkerRef(Input):
    """One worker."""

    worker: WorkerName


class ListWorkers(Input):
    """Which workers to list."""

    kind: WorkerKind | None = None


class ActionView(Output):
    """What a worker declares."""

    action: str
    summary: str
    version: str
    sensitive: bool
    timeout_s: float
    at_once: int


class WorkerView(Output):
    """A worker as its tenant sees it; a credential is there or not, and is never shown."""

    id: UUID | None = Field(default=None, description="None of a worker that is part of the server.")
    name: str
    kind: WorkerKind
    url: str | None = None
    enabled: bool = True
    has_credential: bool = False
    actions: list[ActionView]
    version: int | None = None
    created_by: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class AllowCapability(Input):
    """Let a worker perform an action."""

    action: Action
    worker: WorkerName
    prefer: bool = Field(default=False, description="Give it the action even where others may perform it too.")
    reason: Reason | None = None


class DenyCapability(Input):
    """Let a worker perform an action no more."""

    action: Action
    worker: WorkerName | None = Field(default=None, description="All that perform it today when none is named.")
    reason: Reason | None = None


class ListCapabilities(Input):
    """Which capabilities to list."""

    action: Action | None = None
    allowed: bool | None = Field(default=None, description="Only those that are allowed, or that are not.")


class CapabilityView(Output):
    """One action of one worker: what it takes, and whether this tenant lets it."""

    action: str
    worker: str
    summary: str
    version: str
    required: bool = Field(description="Part of the core of the contracts profile.")
    sensitive: bool = Field(description="Needs policies and approvals.")
    allowed: bool
    preferred: bool
    performs: bool = Field(description="Whether a task for the action goes to this worker.")
    timeout_s: float
    at_once: int
    input_schema: dict[str, Any]
    reason: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None


class CapabilityDecision(Output):
    """How an action stands after a decision: all that declare it."""

    action: str
    performed_by: str | None = Field(description="Who is given the next task; nobody when none is allowed.")
    capabilities: list[CapabilityView]
