"""What the audit trail shows."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import AwareDatetime, Field

from dragoman.operations import Input, ListInput, Output


class Outcome(StrEnum):
    """How it ended: done, refused by a guard, or failed on the way."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


# A word, a whole number, or a list of words.
Detail = str | int | list[str]


class AuditRecord(Output):
    """Who did what, when, through which door, and how it ended."""

    id: UUID
    seq: int | None = Field(None, description="Its place in the chain; not yet while it waits to be sealed.")
    at: datetime
    operation: str
    outcome: Outcome
    subject: str
    principal_type: str
    credential: str
    door: str
    request_id: str
    correlation_id: str | None = None
    resource: str | None = None
    input_sha256: str | None = None
    policy: str | None = None
    code: str | None = None
    reason: str | None = None
    details: dict[str, Detail] | None = Field(None, description="What else a step of a task is told by.")
    rows: dict[str, dict[str, str | int | bool | None] | None] | None = Field(
        None,
        description="The database rows that were written with it, by table/key, as they must be from then on; "
        "documents and long texts as their SHA-256; null for a row that was removed.",
    )


class ListRecords(ListInput):
    """Which records to list."""

    operation: str | None = Field(None, max_length=100, description="Only this operation.", examples=["user.invite"])
    subject: str | None = Field(None, max_length=200, description="Only what this principal did; the same as actor.")
    resource: str | None = Field(
        None,
        max_length=200,
        description="Only what was done to this: the id of a task, document, approval, key or any other thing; "
        "also the tasks that act on it, and the approvals for it.",
    )
    actor: str | None = Field(None, max_length=200, description="Only what this user, agent or service did.")
    action: str | None = Field(
        None,
        max_length=200,
        description="Only this operation, or tasks that perform this action.",
        examples=["approval.decide", "signature.send"],
    )
    outcome: Outcome | None = Field(None, description="Only what ended like this.")
    since: AwareDatetime | None = Field(None, description="Only records from this time on.")
    until: AwareDatetime | None = Field(None, description="Only records before this time.")


class TrustedHead(Input):
    """A head that was kept outside the server."""

    seq: int = Field(ge=1, le=2**63 - 1)
    hash: str = Field(pattern=r"^[0-9a-f]{64}$")


class VerifyTrail(Input):
    """Check the caller's tenant's chain from its first record to its head."""

    head: TrustedHead | None = Field(None, description="A head kept elsewhere: finds a cut at the end.")


class ChainProblem(Output):
    """One place that does not fit."""

    seq: int
    reason: str
    record_id: str | None = None


class RowDisagreement(Output):
    """A database row that is not as the chain says."""

    table: str
    id: str = Field(description="The key of the row: its id, or that of its parent and what tells it apart.")
    column: str = Field(description="The column that differs; * when the row itself is missing, or known to no record.")
    chain: str | int | bool | None = Field(description="What the chain says.")
    row: str | int | bool | None = Field(description="What the row says.")
    seq: int | None = Field(None, description="The link of the last record that speaks of the row.")


class Verification(Output):
    """What the check found."""

    ok: bool
    records: int
    unsealed: int
    head: dict[str, Any] | None
    public_key: str
    trusted_heads: int = Field(description="Heads from outside the database that the chain was held against.")
    problems: list[ChainProblem]
    rows: int = Field(description="Database rows that were held against the chain.")
    disagreements: list[RowDisagreement] = Field(description="Rows that are not as the chain says, the first hundred.")


class ExportPart(StrEnum):
    """What a piece of an export holds."""

    RECORDS = "records"
    TAIL = "tail"
    ROWS = "rows"


class ExportTrail(Input):
    """A piece of the chain, oldest first; or of what stands beside it."""

    part: ExportPart = Field(
        ExportPart.RECORDS,
        description="records: the sealed ones up to a head. rows: the database rows that the chain speaks for. tail: "
        "the records that came after the head `after`; asked for last, it tells which rows were written meanwhile.",
    )
    after: int = Field(0, ge=0, le=2**63 - 1, description="Begin after this link.")
    until: int | None = Field(
        None, ge=1, le=2**63 - 1, description="End at this link: `head.seq` of the first piece, for a chain that grows."
    )
    cursor: str = Field("", max_length=100, description="For rows and tail: `next_cursor` of the piece before.")
    limit: int = Field(1000, ge=1, le=1000, description="How many records at most.")


class ExportedRecord(Output):
    """One record in the form that the standalone verifier reads."""

    seq: int | None = Field(description="Its place in the chain; in a tail, null while it waits for its seal.")
    id: UUID
    body: str = Field(description="The record's canonical bytes, base64; empty when the record is gone.")
    mac: str = Field(description="Empty when the record is gone.")
    hash: str = Field(description="Empty while it waits for its seal.")


class ExportedRow(Output):
    """A database row, as records state it."""

    name: str = Field(description="table/key")
    columns: dict[str, str | int | bool | None]


class Export(Output):
    """A piece of the chain, with the signed head it leads to."""

    tenant: UUID
    public_key: str
    made_at: datetime = Field(description="When the server began to read this piece, by its clock.")
    tables: dict[str, int] = Field(
        description="The tables of which every row is stated in the chain, by records of this version on."
    )
    head: dict[str, Any] | None
    records: list[ExportedRecord] = Field(default_factory=list[ExportedRecord])
    rows: list[ExportedRow] = Field(default_factory=list[ExportedRow])
    broken: list[RowDisagreement] = Field(
        default_factory=list[RowDisagreement], description="Rows of the piece that contradict themselves."
    )
    next_after: int | None = None
    next_cursor: str | None = None
