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
    details: dict[str, str | int] | None = Field(None, description="What else a step of a task is told by.")


class ListRecords(ListInput):
    """Which records to list."""

    operation: str | None = Field(None, max_length=100, description="Only this operation.", examples=["user.invite"])
    subject: str | None = Field(None, max_length=200, description="Only what this principal did.")
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


class Verification(Output):
    """What the check found."""

    ok: bool
    records: int
    unsealed: int
    head: dict[str, Any] | None
    public_key: str
    trusted_heads: int = Field(description="Heads from outside the database that the chain was held against.")
    problems: list[ChainProblem]


class ExportTrail(Input):
    """A piece of the chain, oldest first."""

    after: int = Field(0, ge=0, le=2**63 - 1, description="Begin after this link.")
    until: int | None = Field(
        None, ge=1, le=2**63 - 1, description="End at this link: `head.seq` of the first piece, for a chain that grows."
    )
    limit: int = Field(1000, ge=1, le=1000, description="How many records at most.")


class ExportedRecord(Output):
    """One sealed record in the form that the standalone verifier reads."""

    seq: int
    id: UUID
    body: str = Field(description="The record's canonical bytes, base64; empty when the record is gone.")
    mac: str = Field(description="Empty when the record is gone.")
    hash: str


class Export(Output):
    """A piece of the chain, with the signed head it leads to."""

    tenant: UUID
    public_key: str
    records: list[ExportedRecord]
    head: dict[str, Any] | None
    next_after: int | None
