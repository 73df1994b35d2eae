"""What is asked when a conversation begins, and what an agent is told."""

from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from dragoman.operations import Input, Output
from dragoman.services.memory.layers import OWN, Ids, Layer
from dragoman.text import Text

LONGEST_ABOUT = 4_096
LEAST_CHARACTERS, MOST_CHARACTERS = 500, 200_000


class ShowContext(Input):
    """What the conversation is about, and where it belongs."""

    about: Annotated[Text, StringConstraints(max_length=LONGEST_ABOUT)] = Field(
        "", description="What it is about; the newest memories when unset."
    )
    ids: Ids = Field(OWN, description="Whose layers to look in besides the caller's own and the company's.")
    max_characters: int | None = Field(
        None,
        ge=LEAST_CHARACTERS,
        le=MOST_CHARACTERS,
        description="The budget, if it is to be smaller than that of the server.",
    )


class RememberedMemory(Output):
    """A memory; `truncated` when only its beginning is here, and memory_search or memory_get has the rest."""

    memory_id: UUID
    content: str
    layer: Layer
    tags: list[str]
    score: float | None = Field(None, description="How well it fits, where it was searched for.")
    truncated: bool = False


class ActiveConstraint(Output):
    """A demand in force and the item of knowledge that makes it; knowledge_show has the whole of a truncated one."""

    item_id: str
    item_title: str
    item_type: str
    policy_id: str | None = Field(None, description="The same id, where the item is a policy.")
    layer: str
    mandatory: bool
    severity: str
    constraint: str
    message: str | None
    truncated: bool = False


class Omitted(Output):
    """How many were found that the budget had no room for."""

    memories: int = 0
    constraints: int = 0


class SessionContext(Output):
    """Memories, best first, and constraints, severest first.

    `unavailable` names what could not be looked up now: an empty list of constraints then does not mean that there are
    none.
    """

    memories: list[RememberedMemory] = Field(
        examples=[
            [
                {
                    "memory_id": "01890a5d-ac96-774b-bcce-b302099a8057",
                    "content": "The demo is on Friday at noon.",
                    "layer": "project",
                    "tags": ["demo"],
                    "score": 0.91,
                    "truncated": False,
                }
            ]
        ]
    )
    constraints: list[ActiveConstraint]
    omitted: Omitted
    unavailable: list[str]
