"""What a memory is, and what can be asked of memories."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints

from dragoman.operations import Input, ListInput, Output
from dragoman.services.memory.layers import OWN, Ids, Layer
from dragoman.text import Name, Text

MOST_BYTES = 65_536
MOST_METADATA_BYTES = 16_384
MOST_AT_ONCE = 500


def _said(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    if len(value.encode()) > MOST_BYTES:
        raise ValueError(f"must have at most {MOST_BYTES} bytes; keep long texts as knowledge")
    return value


def _small(value: dict[str, Any]) -> dict[str, Any]:
    if len(str(value)) > MOST_METADATA_BYTES:
        raise ValueError(f"must have at most {MOST_METADATA_BYTES} characters")
    return value


# The schema says characters, the rule says bytes: a document cannot.
Content = Annotated[Text, StringConstraints(min_length=1, max_length=MOST_BYTES), AfterValidator(_said)]
Query = Annotated[Text, StringConstraints(min_length=1, max_length=4_096), AfterValidator(_said)]
Tags = Annotated[list[Name], Field(max_length=50)]
Metadata = Annotated[dict[str, Any], AfterValidator(_small)]
Filters = dict[str, Any]
Share = Annotated[float, Field(ge=0, le=1)]


class SourceType(StrEnum):
    """Where a memory came from."""

    CONVERSATION = "conversation"
    TOOL_RESULT = "tool_result"
    KNOWLEDGE_SYNC = "knowledge_sync"
    MANUAL = "manual"
    IMPORT = "import"


class AddMemory(Input):
    """Something to remember."""

    content: Content = Field(description="What to remember, in words.", examples=["Ada prefers tea in the morning."])
    layer: Layer = Field(Layer.USER, description="Where it belongs.")
    tags: Tags = Field(default_factory=list[str], description="Labels to find it by.")
    metadata: Metadata = Field(default_factory=dict[str, Any], description="Facts about it, for filters.")
    ids: Ids = Field(OWN, description="Whose layer it is.")
    expires_at: AwareDatetime | None = Field(None, description="When it stops being true or wanted.")
    importance: Share = Field(0.5, description="How much it matters; it counts when it is to be promoted.")
    source_type: SourceType = Field(SourceType.MANUAL, description="Where it came from.")
    task_id: Name | None = Field(None, description="The task it came from; the one that adds it when unset.")
    valid_from: AwareDatetime | None = Field(None, description="Since when it holds; now when unset.")
    turn: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Its place in the conversation; the next one when unset (layer session)."
    )


class AddedMemory(Output):
    """Where to find it again; `deduplicated` when the layer had it already and it was merged into that one."""

    memory_id: UUID
    success: bool = True
    deduplicated: bool = False

    @property
    def id(self) -> UUID:
        """The same."""
        return self.memory_id


class AddMemories(Input):
    """Several at once: all of them or none."""

    memories: list[AddMemory] = Field(min_length=1, max_length=MOST_AT_ONCE, description="What to remember.")


class AddedMemories(Output):
    """One id for each that was given, in their order."""

    memory_ids: list[UUID]
    added: int
    deduplicated: int
    success: bool = True


class Source(Output):
    """Who said it, and on what occasion."""

    type: SourceType
    by: str
    task_id: str | None = None
    request_id: str | None = None
    door: str | None = None


class Memory(Output):
    """One version of a memory."""

    memory_id: UUID
    version: int
    content: str
    layer: Layer
    ids: dict[str, str]
    tags: list[str]
    metadata: dict[str, Any]
    importance: float
    turn: int | None
    source: Source
    accesses: int
    created_at: datetime
    valid_from: datetime
    valid_to: datetime | None
    expires_at: datetime | None

    @property
    def id(self) -> UUID:
        """The same."""
        return self.memory_id


class SearchMemories(Input):
    """What to find, where, and how good it must be."""

    query: Query = Field(description="A question or a few words.", examples=["what does Ada drink?"])
    layers: list[Layer] | None = Field(
        None, min_length=1, description="Where to look; every layer whose ids are known when unset."
    )
    ids: Ids = Field(OWN, description="Whose layers to look in.")
    limit: int = Field(10, ge=1, le=100, description="How many at most.")
    threshold: Share = Field(0.0, description="The least score that is of interest, 0 to 1.")
    tags: Tags | None = Field(None, description="Only memories that have all of these.")
    filters: Filters | None = Field(
        None, description='Conditions, such as {"and": [{"metadata.city": "Paris"}, {"importance": {"gte": 0.5}}]}.'
    )
    as_of: AwareDatetime | None = Field(None, description="What was known to hold at that time.")
    explain: bool = Field(default=False, description="Say how each score came about.")


class Folded(Output):
    """A memory of a more general layer that says the same."""

    memory_id: UUID
    layer: Layer


class Explanation(Output):
    """How a score came about: what the words gave, what the meaning gave, and what was made of both."""

    words: float
    meaning: float | None
    cosine: float | None
    neighbours: float
    freshness: float
    score: float


class Hit(Output):
    """A memory that answers, and how well."""

    memory_id: UUID
    content: str
    layer: Layer
    score: float
    tags: list[str]
    metadata: dict[str, Any]
    ids: dict[str, str]
    version: int
    created_at: datetime
    valid_from: datetime
    folded: list[Folded]
    explanation: Explanation | None = None


class Found(Output):
    """The best first; `total_count` is how many reached the threshold, `by_meaning` whether it was more than words."""

    results: list[Hit]
    total_count: int
    searched_layers: list[Layer]
    by_meaning: bool


class MemoryRef(Input):
    """One memory."""

    memory_id: UUID = Field(description="The memory's id.")


class UpdateMemory(Input):
    """A correction: by id, or by a description that fits one memory. What is left out stays."""

    memory_id: UUID | None = Field(None, description="The memory's id.")
    query: Query | None = Field(None, description="What the memory says, when its id is not known.")
    layers: list[Layer] | None = Field(None, min_length=1, description="Where to look for it, with query.")
    ids: Ids = Field(OWN, description="Whose layers to look in, with query.")
    content: Content | None = Field(None, description="What it says from now on.")
    tags: Tags | None = Field(None, description="Replaces the labels.")
    metadata: Metadata | None = Field(None, description="Replaces the facts about it.")
    expires_at: AwareDatetime | None = Field(None, description="When it stops being true or wanted.")
    importance: Share | None = Field(None, description="How much it matters.")


class ChangedMemory(Output):
    """The memory and the version that holds now."""

    memory_id: UUID
    version: int
    success: bool = True

    @property
    def id(self) -> UUID:
        """The same."""
        return self.memory_id


class ForgottenMemory(Output):
    """It is gone, with all its versions."""

    memory_id: UUID
    success: bool = True

    @property
    def id(self) -> UUID:
        """The same."""
        return self.memory_id


class ListMemories(ListInput):
    """Which memories to list, newest first."""

    layers: list[Layer] | None = Field(
        None, min_length=1, description="Where to look; every layer whose ids are known when unset."
    )
    ids: Ids = Field(OWN, description="Whose layers to look in.")
    tags: Tags | None = Field(None, description="Only memories that have all of these.")
    filters: Filters | None = Field(None, description="Conditions, as for a search.")
    as_of: AwareDatetime | None = Field(None, description="What was known to hold at that time.")


class MemoryHistory(Output):
    """Every version, oldest first."""

    memory_id: UUID
    versions: list[Memory]


class PromoteMemory(MemoryRef):
    """Make something of one agent the user's, or something of one session the project's."""

    ids: Ids = Field(OWN, description="Whose layer it goes to.")
    force: bool = Field(default=False, description="Even if it has not earned it.")


class PromotionOutcome(StrEnum):
    """What became of a promotion."""

    PROMOTED = "promoted"
    NOT_EARNED = "not_earned"
    REFUSED = "refused"
    NOTHING_LEFT = "nothing_left"


class Promotion(Output):
    """What became of it, and what the rule made of it: 0.6 importance, 0.3 use, 0.1 freshness; 0.8 is needed."""

    memory_id: UUID
    outcome: PromotionOutcome = Field(
        description="`refused` is by a policy; with `nothing_left`, what must not be shared was all that it said."
    )
    promoted: bool
    promoted_to: UUID | None = None
    layer: Layer
    score: float
    needed: float
    redacted: list[str] = Field([], description="Kinds of what was taken out: secret, email, phone, card and others.")
    refusals: list[str] = Field([], description="What the policies have against it.")
    policy_version: str | None = Field(None, description="The revision of the policies that it was held against.")
    success: bool = True

    @property
    def id(self) -> UUID:
        """Of what was made, or else of what was looked at."""
        return self.promoted_to or self.memory_id


class ExportMemories(ListInput):
    """A piece of an export, oldest first."""

    limit: int = Field(500, ge=1, le=MOST_AT_ONCE, description="How many at most.")
    layers: list[Layer] | None = Field(None, min_length=1, description="Where to look.")
    ids: Ids = Field(OWN, description="Whose layers to look in.")


class ImportMemories(Input):
    """What an export gave; a memory of the same layer with the same words is merged, so twice does no harm."""

    memories: list[dict[str, Any]] = Field(min_length=1, max_length=MOST_AT_ONCE, description="Lines of an export.")
