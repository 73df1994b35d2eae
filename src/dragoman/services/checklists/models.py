"""What a closing checklist is, and what can be asked of one."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, Field, StringConstraints, model_validator

from dragoman.operations import Input, Output
from dragoman.text import Name, Text, clean

ChecklistRef = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(clean)]
EntryId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$")]
Remark = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]
PatchId = Annotated[str, StringConstraints(min_length=1, max_length=100), AfterValidator(clean)]
Revision = Annotated[int, Field(ge=1, le=2**31 - 1)]
MOST_ENTRIES = 1_000


class Stage(StrEnum):
    """When something is due."""

    PRE_SIGNING = "PRE_SIGNING"
    SIGNING = "SIGNING"
    CLOSING = "CLOSING"
    POST_CLOSING = "POST_CLOSING"


class EntryStatus(StrEnum):
    """How far something is."""

    NOT_STARTED = "NOT_STARTED"
    DRAFT = "DRAFT"
    CIRCULATED = "CIRCULATED"
    FORM_FINAL = "FORM_FINAL"
    PARTIALLY_SIGNED = "PARTIALLY_SIGNED"
    FULLY_EXECUTED = "FULLY_EXECUTED"
    DELIVERED = "DELIVERED"
    FILED_OR_RECORDED = "FILED_OR_RECORDED"


class SignatoryStatus(StrEnum):
    """Whether a signature is in."""

    PENDING = "PENDING"
    RECEIVED = "RECEIVED"
    N_A = "N_A"


class Artifact(Input):
    """Where a signed page lies, and since when."""

    uri: str | None = Field(None, min_length=1, max_length=2_000)
    path: str | None = Field(None, min_length=1, max_length=1_000)
    received_at: AwareDatetime | None = None

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if self.uri is None and self.path is None:
            raise ValueError("needs a uri or a path")
        return self


class Signatory(Input):
    """Somebody who signs."""

    party: Name
    name: Name | None = None
    status: SignatoryStatus = SignatoryStatus.PENDING
    artifacts: tuple[Artifact, ...] = Field(default=(), max_length=20)

    @model_validator(mode="after")
    def _shown(self) -> Self:
        if self.status is SignatoryStatus.RECEIVED and not self.artifacts:
            raise ValueError("a signature that is RECEIVED needs an artifact that shows it")
        return self


class Citation(Input):
    """What something rests on."""

    text: Remark | None = None
    ref: Remark | None = None
    link: str | None = Field(None, min_length=1, max_length=2_000)
    filepath: str | None = Field(None, min_length=1, max_length=1_000)


class Entry(Input):
    """Something that must be there."""

    title: Name
    stage: Stage
    status: EntryStatus = EntryStatus.NOT_STARTED
    document_id: str | None = Field(None, min_length=1, max_length=200)
    responsible: Name | None = None
    due_at: AwareDatetime | None = None
    signatories: tuple[Signatory, ...] = Field(default=(), max_length=100)
    citations: tuple[Citation, ...] = Field(default=(), max_length=100)
    notes: Remark | None = None

    @model_validator(mode="after")
    def _signed(self) -> Self:
        signed = [one.status is not SignatoryStatus.PENDING for one in self.signatories]
        if self.status is EntryStatus.FULLY_EXECUTED and not all(signed):
            raise ValueError("cannot be FULLY_EXECUTED while a signature is PENDING")
        if self.status is EntryStatus.PARTIALLY_SIGNED and not any(signed):
            raise ValueError("cannot be PARTIALLY_SIGNED before a signature is in")
        return self


class ChecklistContent(Input):
    """All that patches change."""

    title: Name
    entries: dict[EntryId, Entry] = Field(default_factory=dict[str, Entry], max_length=MOST_ENTRIES)


class CreateChecklist(ChecklistContent):
    """A new checklist."""

    name: ChecklistRef | None = Field(None, description="A name of the caller's, to refer to it by.")
    matter_id: Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(clean)] | None = None


class GetChecklist(Input):
    """Which checklist."""

    checklist_id: ChecklistRef = Field(description="Its id or its name.")


class PatchOp(StrEnum):
    """What is done at a path."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class PatchMode(StrEnum):
    """Whether a patch is applied, or kept for somebody to look at."""

    APPLY = "APPLY"
    PROPOSED = "PROPOSED"


class PatchOperation(Input):
    """One change, and why."""

    op: PatchOp
    path: str = Field(pattern=r"^/(title|entries)(/[^/\x00]{1,200}){0,6}$", examples=["/entries/nda/status"])
    value: Any = None
    rationale: Remark | None = None
    source: Citation | None = None


class ChecklistPatch(Input):
    """Changes that are made together or not at all."""

    patch_id: PatchId = Field(description="The same patch sent again is the same patch; another one needs another id.")
    expected_revision: Revision = Field(description="The revision that the changes were thought out for.")
    mode: PatchMode = PatchMode.APPLY
    source_event: Remark | None = Field(None, description="What gave rise to it.")
    operations: tuple[PatchOperation, ...] = Field(min_length=1, max_length=200)


class ApplyPatch(ChecklistPatch):
    """Apply a patch that was validated."""

    validation_id: UUID | None = Field(
        None, description="What `checklist.validate` gave for it; to apply, it is needed."
    )

    @model_validator(mode="after")
    def _validated(self) -> Self:
        if self.mode is PatchMode.APPLY and self.validation_id is None:
            raise ValueError("to apply a patch, validate it with checklist.validate and give its validation_id")
        return self

    def patch(self) -> ChecklistPatch:
        """The patch by itself, as it was validated."""
        return ChecklistPatch.model_validate(self.model_dump(exclude={"validation_id"}))


class ValidatePatch(ChecklistPatch):
    """Would this patch do?"""

    checklist_id: ChecklistRef

    def patch(self) -> ChecklistPatch:
        """The patch by itself."""
        return ChecklistPatch.model_validate(self.model_dump(exclude={"checklist_id"}))


class Complaint(Output):
    """What is wrong with a patch."""

    field: str
    message: str


class PatchValidation(Output):
    """Whether it would do, and the id to apply it with until it expires or the checklist moves."""

    valid: bool
    complaints: list[Complaint]
    validation_id: UUID | None
    expires_at: datetime | None
    revision: int


class PatchView(Output):
    """A patch that was applied or proposed."""

    patch_id: str
    mode: PatchMode
    revision: int = Field(description="Of the checklist after it.")
    source_event: str | None
    operations: list[dict[str, Any]]
    made_by: str
    made_at: datetime
    task_id: UUID | None


class ChecklistView(Output):
    """A checklist as it stands, with its latest patches."""

    id: UUID
    name: str | None
    matter_id: str | None
    title: str
    revision: int
    entries: dict[str, Entry]
    created_by: str
    created_at: datetime
    updated_at: datetime
    patches: list[PatchView]
