"""The models of workers and capabilities: registration, permission and views."""

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
Reason = Annotated[Text, Field(max_length=500, description="Why it was decided; stored with the decision.")]
Url = Annotated[str, Field(min_length=8, max_length=2000, examples=["https://agent.example.com"])]
# A credential is sent in a header, so it has only characters that a header can carry.
Credential = Annotated[SecretStr, Field(min_length=1, max_length=4000)]
Header = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description="The header that carries the credential; `Authorization` carries it as a bearer token.",
    ),
]


class WorkerKind(StrEnum):
    """Where a worker runs: in this server, or behind one of the protocols."""

    BUILT_IN = "built_in"
    A2A = "a2a"
    MCP = "mcp"


class RemoteKind(StrEnum):
    """The protocol of a remote worker."""

    A2A = "a2a"
    MCP = "mcp"


def _small_and_sound(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    if len(orjson.dumps(schema)) > _LARGEST_SCHEMA:
        raise ValueError(f"must not be larger than {_LARGEST_SCHEMA} bytes")
    check_schema(schema)
    return schema


def _by_name(action: Any) -> Any:
    """Accept the name of an action in place of an object."""
    return {"action": action} if isinstance(action, str) else action


class RemoteAction(Input):
    """An action that a remote worker performs, with its input and its limits."""

    action: Action
    summary: Text = Field("", max_length=500)
    version: str = Field("1", pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,29}$")
    sensitive: bool = Field(
        default=False,
        description="Requires policies and approvals. An action that is sensitive in this server always does.",
    )
    timeout_s: float = Field(60, ge=1, le=3600, description="An attempt that lasts longer fails.")
    at_once: int = Field(10, ge=1, le=1000, description="How many attempts may run at once in one process.")
    input_schema: Annotated[dict[str, Any] | None, AfterValidator(_small_and_sound)] = Field(
        None, description="A JSON schema of the input, without references and patterns; the worker checks those itself."
    )


Actions = Annotated[list[Annotated[RemoteAction, BeforeValidator(_by_name)]], Field(min_length=1, max_length=100)]


def _plain_credential(credential: SecretStr | None) -> SecretStr | None:
    if credential is not None:
        text = credential.get_secret_value()
        if not (text.isascii() and text.isprintable()):
            raise ValueError("must be printable ASCII")
    return credential


def _each_once(actions: list[RemoteAction] | None) -> list[RemoteAction] | None:
    names = [action.action for action in actions or ()]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"must name each action once: {', '.join(repeated)}")
    return actions


class RegisterWorker(Input):
    """Register a remote worker and the actions it declares; `capability.allow` permits them."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="Without its kind, which is put in front: `a2a:partner`."
    )
    kind: RemoteKind
    url: Url = Field(description="The card or the host of an A2A agent, or the endpoint of an MCP server.")
    actions: Actions
    credential: Credential | None = Field(None, description="Stored encrypted, and never shown again.")
    header: Header = "Authorization"
    enabled: bool = True

    _credential = field_validator("credential")(_plain_credential)
    _actions = field_validator("actions")(_each_once)


class UpdateWorker(Input):
    """Change a worker; fields that are left out stay as they are."""

    worker: WorkerName
    url: Url | None = Field(None, description="A new host requires the credential again.")
    actions: Actions | None = None
    credential: Credential | None = None
    header: Header | None = None
    enabled: bool | None = Field(None, description="A worker that is not enabled gets no tasks.")
    expected_version: int | None = Field(None, description="Refuse the change unless this is the current version.")

    _credential = field_validator("credential")(_plain_credential)
    _actions = field_validator("actions")(_each_once)


class WorkerRef(Input):
    """Names one worker."""

    worker: WorkerName


class ListWorkers(Input):
    """Filters the list of workers."""

    kind: WorkerKind | None = None


class ActionView(Output):
    """An action that a worker declares."""

    action: str
    summary: str
    version: str
    sensitive: bool
    timeout_s: float
    at_once: int


class WorkerView(Output):
    """A worker as its tenant sees it; `has_credential` stands for the credential, which is never shown."""

    id: UUID | None = Field(default=None, description="Null for a worker that is part of the server.")
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
    """Allow a worker to perform an action."""

    action: Action
    worker: WorkerName
    prefer: bool = Field(default=False, description="Give the action to this worker even if others may perform it.")
    reason: Reason | None = None


class DenyCapability(Input):
    """Deny an action to a worker."""

    action: Action
    worker: WorkerName | None = Field(
        default=None, description="All workers that declare the action now, if none is named."
    )
    reason: Reason | None = None


class ListCapabilities(Input):
    """Filters the list of capabilities."""

    action: Action | None = None
    allowed: bool | None = Field(
        default=None, description="Only capabilities that are allowed, or only those that are not."
    )


class CapabilityView(Output):
    """One action of one worker: its input, its limits, and whether the tenant allows it."""

    action: str
    worker: str
    summary: str
    version: str
    required: bool = Field(description="Whether it is part of the core of the contracts profile.")
    sensitive: bool = Field(description="Whether it requires policies and approvals.")
    allowed: bool
    preferred: bool
    performs: bool = Field(description="Whether the next task for the action goes to this worker.")
    timeout_s: float
    at_once: int
    input_schema: dict[str, Any]
    reason: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None


class CapabilityDecision(Output):
    """An action after a decision, with all workers that declare it."""

    action: str
    performed_by: str | None = Field(description="The worker that gets the next task; null when none is allowed.")
    capabilities: list[CapabilityView]
