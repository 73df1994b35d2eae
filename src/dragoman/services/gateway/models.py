"""Registrations of agents: which certificate, what it may ask, how often."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from dragoman.operations import Input, ListInput, Output
from dragoman.text import Name

Scopes = Annotated[list[Annotated[str, Field(pattern=r"^[a-z]+:[a-z]+$")]], Field(min_length=1, max_length=50)]
Certificate = Annotated[
    str,
    StringConstraints(min_length=1, max_length=20_000),
    Field(description="The client certificate in PEM; its key stays with the agent."),
]
PerMinute = Annotated[int, Field(ge=1, le=100_000, description="Queries a minute; unset: that of the server.")]
READS = ("read:costs", "read:recommendations", "read:resources")


class AgentStatus(StrEnum):
    """A suspended agent is refused until it is resumed."""

    ACTIVE = "active"
    SUSPENDED = "suspended"


class RegisterAgent(Input):
    """An agent of somebody else that may query this tenant."""

    name: Name = Field(description="What the agent is called.", examples=["FinOps of Acme"])
    certificate: Certificate
    scopes: Scopes = Field(
        default_factory=lambda: list(READS),
        description="What it may read, such as `read:costs`. Nothing is ever written over the gateway.",
    )
    endpoint: str | None = Field(None, max_length=2_000, description="Where the agent itself is reached, for people.")
    per_min: PerMinute | None = None


class AgentRef(Input):
    """One registered agent of the caller's tenant."""

    agent_id: UUID = Field(description="The agent's id.")


class ListAgents(ListInput):
    """Some registered agents."""

    status: AgentStatus | None = Field(None, description="Only those in this state.")


class UpdateAgent(AgentRef):
    """What to change; what is left out stays."""

    name: Name | None = Field(None, description="A new name.")
    scopes: Scopes | None = Field(None, description="What it may read from now on.")
    endpoint: str | None = Field(None, max_length=2_000, description="Where the agent itself is reached.")
    per_min: PerMinute | None = None
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the agent has moved on from this version."
    )


class RotateAgent(AgentRef):
    """A fresh key, and a fresh certificate if there is one."""

    certificate: Certificate | None = None
    grace_s: int = Field(
        0, ge=0, le=86_400 * 7, description="How long the old key and the old certificate go on working."
    )


class Agent(Output):
    """A registered agent."""

    id: UUID
    name: str
    status: AgentStatus
    fingerprint: str = Field(description="SHA-256 of its certificate.")
    certificate_subject: str
    certificate_expires_at: datetime
    scopes: list[str]
    per_min: int | None
    endpoint: str | None
    hint: str = Field(description="The beginning and the end of its key.")
    version: int
    created_by: str
    created_at: datetime
    updated_at: datetime


class NewAgentKey(Agent):
    """A registered agent with its key, which is shown this once."""

    secret: str | None = Field(description="The key, for the header X-API-Key; null when the request is repeated.")

    def without_secrets(self) -> "NewAgentKey":
        """Return it without the key."""
        return self.model_copy(update={"secret": None})


class RemovedAgent(Output):
    """An agent that is no longer registered."""

    id: UUID
