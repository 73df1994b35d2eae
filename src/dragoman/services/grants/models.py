"""What is asked of grants, and what they look like."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import AwareDatetime, Field, StringConstraints

from dragoman.operations import Input, ListInput, Output
from dragoman.text import Subject, Text

# An action, or all whose names begin alike: `signature.send`, `signature.*`.
_SEGMENT = r"[a-z][a-z0-9_]{0,49}"
Actions = Annotated[
    list[Annotated[str, Field(pattern=rf"^{_SEGMENT}(\.{_SEGMENT}){{0,2}}(\.{_SEGMENT}|\.\*)$")]],
    Field(max_length=50, description="Only these, such as `signature.send` or `signature.*`; every action if empty."),
]
Reason = Annotated[Text, StringConstraints(max_length=2_000)]


class GrantState(StrEnum):
    """Only an `active` grant lets anyone act for another."""

    ACTIVE = "active"
    EXPIRED = "expired"
    ENDED = "ended"


class CreateGrant(Input):
    """Let a principal act for a person."""

    agent: Subject = Field(description="Who may act: the subject of an agent, a service or another person.")
    on_behalf_of: Subject | None = Field(
        None, description="For whom: the caller if absent. Only an organisation's admin names somebody else."
    )
    actions: Actions = []
    expires_at: AwareDatetime | None = Field(None, description="Until when; without it until it is ended.")
    reason: Reason | None = None


class GrantRef(Input):
    """Which grant."""

    grant_id: UUID


class EndGrant(GrantRef):
    """End a grant."""

    reason: Reason | None = None


class ListGrants(ListInput):
    """Some grants, newest first."""

    agent: Subject | None = Field(None, description="Only those of this agent.")
    on_behalf_of: Subject | None = Field(None, description="Only those to act for this person.")
    include_ended: bool = Field(default=False, description="With those that are over.")


class GrantView(Output):
    """A grant."""

    grant_id: UUID
    state: GrantState
    agent: str = Field(description="Who may act.")
    on_behalf_of: str = Field(description="For whom.")
    actions: list[str] = Field(description="Which actions; every action if empty.")
    expires_at: datetime | None
    reason: str | None
    created_by: str
    created_at: datetime
    ended_by: str | None
    ended_at: datetime | None
    end_reason: str | None

    @property
    def id(self) -> UUID:
        """Sorts by the time it was made."""
        return self.grant_id
