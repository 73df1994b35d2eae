"""What goes in and out of imports."""

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import Field, StringConstraints, WithJsonSchema, model_validator

from dragoman.binary import DECODED, NAMED_BY_HASH
from dragoman.operations import Input, ListInput, Output
from dragoman.text import Name
from dragoman_costs.money import Amount

# In base64 it fits into a body.
PART_BYTES: Final = 4_194_304
MOST_PARTS: Final = 100_000


# In a digest of the input the part stands for itself by its hash.
PartContent = Annotated[
    bytes,
    DECODED,
    Field(min_length=1, max_length=PART_BYTES),
    NAMED_BY_HASH,
    WithJsonSchema({"type": "string", "format": "byte", "minLength": 1}),
]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ImportState(StrEnum):
    """How far an import has come."""

    REQUESTED = "requested"
    RUNNING = "running"
    DONE = "done"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BeginUpload(Input):
    """A billing export that is to be sent in parts."""

    file_name: Name = Field(
        description="Its name; a later file of this name replaces it where it was imported as a part."
    )
    size_bytes: int = Field(ge=1, description="Its size.")
    sha256: Sha256 = Field(description="Its SHA-256 in hexadecimal.")


class UploadRef(Input):
    """One upload."""

    upload_id: UUID


class AddPart(UploadRef):
    """One part of an upload."""

    number: int = Field(ge=1, le=MOST_PARTS, description="Its place, from 1.")
    content: PartContent = Field(description="The part in base64. All have `part_bytes`, the last one what is left.")


class Upload(Output):
    """An upload, and what is still missing of it."""

    id: UUID
    file_name: str
    size_bytes: int
    sha256: str
    part_bytes: int
    parts: int
    missing_parts: list[int] = Field(description="The numbers of the first 1000 parts that have not arrived.")
    expires_at: datetime


class PartAdded(Output):
    """A part that has arrived."""

    upload_id: UUID
    number: int


class BilledAccount(Output):
    """Whose bill a file is."""

    provider: str | None
    billing_account: str | None
    rows: int


class AccountFound(Output):
    """The cloud account of an upload: that of the bill with the most rows in it."""

    account_id: UUID
    provider: str
    identifier: str
    name: str
    registered: bool = Field(description="Whether the account was registered just now.")
    bills: list[BilledAccount] = Field(description="Whose bills are in the file, those with the most rows first.")


class ImportFile(Input):
    """Import a billing export. Name the file by exactly one of `upload_id`, `path`, `url` and `export`."""

    account_id: UUID = Field(description="The cloud account that the bill is of.")
    upload_id: UUID | None = Field(None, description="A finished upload.")
    path: str | None = Field(
        None, min_length=1, max_length=1_000,
        description="A file on the server, below the directory of the tenant in DRAGOMAN_COSTS__IMPORT_DIRS.",
    )  # fmt: skip
    url: str | None = Field(
        None, min_length=1, max_length=2_048, description="An https address, such as one that an object store signed."
    )
    export: str | None = Field(
        None, min_length=1, max_length=1_024,
        description="A file at `config.export_url` of the account, by its name there; it is read with its credential.",
    )  # fmt: skip
    part: bool = Field(
        default=False,
        description="The file is one of several for its billing periods: it replaces an earlier file of its name, and "
        "is added to the others. Without this it replaces all that its periods had.",
    )

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if sum(one is not None for one in (self.upload_id, self.path, self.url, self.export)) != 1:
            raise ValueError("name the file by exactly one of upload_id, path, url and export")
        return self


class ImportAccepted(Output):
    """An import that was handed over as a task."""

    import_id: UUID
    task_id: UUID
    state: str = Field(description="The state of the task.")


class ImportRef(Input):
    """One import."""

    import_id: UUID


class ListImports(ListInput):
    """A page of imports."""

    account_id: UUID | None = Field(None, description="Only those of this cloud account.")
    state: ImportState | None = Field(None, description="Only those in this state.")


class ListBadRows(ListInput):
    """A page of the rows that an import set aside."""

    import_id: UUID


class Total(Output):
    """What the shown rows of an import add up to in one currency."""

    currency: str
    billed: Amount
    effective: Amount
    list: Amount
    contracted: Amount
    row_count: int


class ImportedPeriod(Output):
    """A billing period of a file. `unchanged` where it was shown already, from the same file."""

    period: date
    row_count: int
    unchanged: bool = False


class Import(Output):
    """An import with its report."""

    id: UUID
    account_id: UUID
    task_id: UUID | None
    state: ImportState
    source: dict[str, Any]
    file_name: str
    part: bool
    file_sha256: str | None
    row_count: int = Field(description="Rows that can be read.")
    bad_count: int = Field(description="Rows that were set aside; the first 1000 are listed with their reasons.")
    periods: list[ImportedPeriod]
    totals: list[Total]
    error: dict[str, Any] | None
    created_by: str
    created_at: datetime
    finished_at: datetime | None


class BadRow(Output):
    """A row that was set aside. `column` is empty where the whole line is no row."""

    id: UUID
    line: int
    column: str
    reason: str
    value: str | None


class PerformImport(Input):
    """The input of the task of an import."""

    import_id: UUID
