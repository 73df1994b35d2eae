"""The SQL of requests for signatures: their history and their evidence are only ever added to."""

from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.audit.rows import RowGroup, RowTable
from dragoman.services.audit.statements import Statements
from dragoman.services.signatures.states import Status, follows

Record = dict[str, Any]
_AFTER_ALL = UUID(int=2**128 - 1)

_COLUMNS: LiteralString = """
id, document_id, document_version, document_sha256, title, message, provider, seal, signers, status, status_at, seq,
provider_key, provider_ref, prepared_task, sent_task, governance, signed_version, signed_sha256, created_by,
created_at"""
# A task that is tried again finds what it has prepared.
ADD: LiteralString = f"""
INSERT INTO signatures (tenant_id, id, document_id, document_version, document_sha256, title, message, provider, seal,
                        signers, prepared_task, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant_id, prepared_task) DO NOTHING RETURNING {_COLUMNS}"""
FIND: LiteralString = f"SELECT {_COLUMNS} FROM signatures WHERE tenant_id = $1 AND id = $2"
FIND_PREPARED: LiteralString = f"SELECT {_COLUMNS} FROM signatures WHERE tenant_id = $1 AND prepared_task = $2"
LOCK: LiteralString = f"{FIND} FOR UPDATE"
FIND_AT_PROVIDER: LiteralString = f"""
SELECT {_COLUMNS} FROM signatures
WHERE tenant_id = $1 AND provider = $2 AND (provider_ref = $3 OR provider_key = $4) ORDER BY id DESC LIMIT 1"""
LIST: LiteralString = f"""
SELECT {_COLUMNS} FROM signatures
WHERE tenant_id = $1 AND id < $3 AND ($4::text IS NULL OR status = $4) AND ($5::uuid IS NULL OR document_id = $5)
ORDER BY id DESC LIMIT $2"""
LIST_WAITING: LiteralString = f"""
SELECT {_COLUMNS} FROM signatures
WHERE tenant_id = $1 AND id < $3 AND status IN ('sent', 'delivered', 'signed')
  AND ($4::text IS NULL OR status = $4) AND ($5::uuid IS NULL OR document_id = $5)
  AND (signers @> $6::jsonb OR signers @> $7::jsonb)
ORDER BY id DESC LIMIT $2"""
OTHERS_OUT: LiteralString = """
SELECT 1 FROM signatures
WHERE tenant_id = $1 AND document_id = $2 AND id <> $3 AND status IN ('sent', 'delivered', 'signed') LIMIT 1"""
CLAIM: LiteralString = """
UPDATE signatures SET sent_task = $3, governance = $4
WHERE tenant_id = $1 AND id = $2 AND status = 'created' AND (sent_task IS NULL OR sent_task = $3)"""
RELEASE: LiteralString = """
UPDATE signatures SET sent_task = NULL WHERE tenant_id = $1 AND id = $2 AND status = 'created' AND sent_task = $3"""
NAME: LiteralString = "UPDATE signatures SET provider_key = $3 WHERE tenant_id = $1 AND id = $2"
REFER: LiteralString = "UPDATE signatures SET provider_ref = $3 WHERE tenant_id = $1 AND id = $2"
ADVANCE: LiteralString = f"""
UPDATE signatures SET status = $3, status_at = now(), seq = seq + 1, signers = coalesce($4::jsonb, signers)
WHERE tenant_id = $1 AND id = $2 RETURNING {_COLUMNS}"""
CHANGE_SIGNERS: LiteralString = f"""
UPDATE signatures SET signers = $3 WHERE tenant_id = $1 AND id = $2 RETURNING {_COLUMNS}"""
NOTE_SIGNED: LiteralString = f"""
UPDATE signatures SET signed_version = $3, signed_sha256 = $4 WHERE tenant_id = $1 AND id = $2 RETURNING {_COLUMNS}"""
ADD_HISTORY: LiteralString = """
INSERT INTO signature_history (tenant_id, signature_id, seq, status, actor, source, reason, task_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
HISTORY: LiteralString = """
SELECT seq, at, status, actor, source, reason, task_id FROM signature_history
WHERE tenant_id = $1 AND signature_id = $2 ORDER BY seq"""
ADD_EVIDENCE: LiteralString = """
INSERT INTO signature_evidence (tenant_id, signature_id, seq, sha256, record, proof) VALUES ($1, $2, $3, $4, $5, $6)"""
EVIDENCE: LiteralString = """
SELECT seq, sha256, record, proof FROM signature_evidence WHERE tenant_id = $1 AND signature_id = $2 ORDER BY seq"""

# What a request, its history and its evidence promise; the audit trail is held against it.
PROMISED = RowGroup(
    ids="SELECT id FROM signatures WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3",
    tables=(
        RowTable(
            "signatures",
            """SELECT id AS key, document_id, document_version, document_sha256, title, message, provider, seal,
                      signers, status, provider_key, provider_ref, prepared_task, sent_task, governance,
                      signed_version, signed_sha256, created_by
               FROM signatures WHERE tenant_id = $1 AND id = ANY ($2)""",
        ),
        RowTable(
            "signature_history",
            """SELECT signature_id || '/' || seq AS key, status, actor, source, reason, task_id
               FROM signature_history WHERE tenant_id = $1 AND signature_id = ANY ($2)""",
        ),
        RowTable(
            "signing_links",
            """SELECT id AS key, signature_id, email, encode(sha256(code), 'hex') AS code, made_by, made_with,
                      expires_at, ended_as
               FROM signing_links WHERE tenant_id = $1 AND signature_id = ANY ($2)""",
        ),
        RowTable(
            "signature_evidence",
            """SELECT signature_id || '/' || seq AS key, sha256, encode(sha256(record), 'hex') AS record,
                      encode(sha256(proof), 'hex') AS proof
               FROM signature_evidence WHERE tenant_id = $1 AND signature_id = ANY ($2)""",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class NewSignature:
    """A request on its way in; of one task there is one."""

    id: UUID
    document_id: UUID
    document_version: int
    document_sha256: str
    title: str
    message: str | None
    provider: str
    seal: bool
    signers: list[Record]
    task_id: UUID
    created_by: str


@dataclass(frozen=True, slots=True)
class Step:
    """A status to be reached, who says so, and how they know; one that `repeats` is noted although it is no news."""

    status: Status
    actor: str
    source: str
    reason: str | None = None
    task_id: UUID | None = None
    signers: list[Record] | None = None
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Attested:
    """A record of a signature with its proof, on its way in."""

    sha256: str
    record: bytes
    proof: bytes


class SignatureStore:
    """Requests for signatures of a tenant."""

    def __init__(self, db: Database, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    async def add(self, scope: Scope, new: NewSignature) -> Record:
        """Record a request; the one that the same task has prepared before, where there is one."""
        async with self._db.unit(scope):
            row = await self._db.find(
                scope, ADD, scope.tenant, new.id, new.document_id, new.document_version, new.document_sha256, new.title,
                new.message, new.provider, new.seal, new.signers, new.task_id, new.created_by,
            )  # fmt: skip
            if row is not None:
                entry = (1, Status.CREATED.value, new.created_by, "task", None, new.task_id)
                await self._db.execute(scope, ADD_HISTORY, scope.tenant, new.id, *entry)
                await self._statements.add(scope, "signature.add", new.id)
            else:
                row = await self._db.find(scope, FIND_PREPARED, scope.tenant, new.task_id)
        if row is None:
            raise RuntimeError("an insert gave no row")
        return dict(row)

    async def find(self, scope: Scope, signature_id: UUID) -> Record | None:
        """One request."""
        return _record(await self._db.find(scope, FIND, scope.tenant, signature_id))

    async def lock(self, scope: Scope, signature_id: UUID) -> Record | None:
        """One request, kept from others until the unit of work ends."""
        return _record(await self._db.find(scope, LOCK, scope.tenant, signature_id))

    async def find_at_provider(self, scope: Scope, provider: str, *, ref: str | None, key: str | None) -> Record | None:
        """One request by what a provider calls it, or by what we call it there."""
        return _record(await self._db.find(scope, FIND_AT_PROVIDER, scope.tenant, provider, ref, key))

    async def list_waiting(
        self,
        scope: Scope,
        limit: int,
        before: UUID | None,
        status: str | None,
        document_id: UUID | None,
        *,
        email: str,
        subject: str,
    ) -> list[Record]:
        """Those that are out and wait for one person, newest first."""
        by_email = [{"email": email, "role": "signer", "state": "pending", "subject": None}]
        by_subject = [{"subject": subject, "role": "signer", "state": "pending"}]
        values = (limit, before or _AFTER_ALL, status, document_id, by_email, by_subject)
        return [dict(row) for row in await self._db.fetch(scope, LIST_WAITING, scope.tenant, *values)]

    async def others_out(self, scope: Scope, document_id: UUID, signature_id: UUID) -> bool:
        """Whether the document is out for signature by another request."""
        return await self._db.find(scope, OTHERS_OUT, scope.tenant, document_id, signature_id) is not None

    async def claim(self, scope: Scope, signature_id: UUID, task_id: UUID, governance: Record) -> bool:
        """Let one task send it under these policies and approvals, and no other; False when it is too late for that."""
        return await self._change(scope, CLAIM, signature_id, task_id, governance)

    async def release(self, scope: Scope, signature_id: UUID, task_id: UUID) -> None:
        """Let another task send it: this one was refused."""
        await self._change(scope, RELEASE, signature_id, task_id)

    async def name(self, scope: Scope, signature_id: UUID, key: str) -> None:
        """What it will be called at the provider."""
        await self._change(scope, NAME, signature_id, key)

    async def refer(self, scope: Scope, signature_id: UUID, ref: str) -> None:
        """What the provider calls it."""
        await self._change(scope, REFER, signature_id, ref)

    async def advance(self, scope: Scope, signature_id: UUID, step: Step) -> tuple[Record, bool]:
        """Reach a status, if it is news: the request, and whether it was. What signers did is kept in any case."""
        async with self._db.unit(scope):
            now = await self.lock(scope, signature_id)
            if now is None:
                raise RuntimeError("the request is gone")
            repeated = step.repeats and now["status"] == step.status
            if not repeated and not follows(Status(now["status"]), step.status):
                if step.signers is not None and step.signers != now["signers"]:
                    changed = await self._db.find(scope, CHANGE_SIGNERS, scope.tenant, signature_id, step.signers)
                    await self._statements.add(scope, "signature.change", signature_id)
                    return _one(changed), False
                return now, False
            values = (signature_id, step.status.value, step.signers)
            row = _one(await self._db.find(scope, ADVANCE, scope.tenant, *values))
            entry = (row["seq"], step.status.value, step.actor, step.source, step.reason, step.task_id)
            await self._db.execute(scope, ADD_HISTORY, scope.tenant, signature_id, *entry)
            await self._statements.add(scope, "signature.advance", signature_id)
        return row, True

    async def change_signers(self, scope: Scope, signature_id: UUID, signers: list[Record]) -> None:
        """Keep what became known of the signers."""
        async with self._db.unit(scope):
            await self._db.execute(scope, CHANGE_SIGNERS, scope.tenant, signature_id, signers)
            await self._statements.add(scope, "signature.change", signature_id)

    async def note_signed(self, scope: Scope, signature_id: UUID, version: int, sha256: str) -> Record:
        """The newest version of the document that has signatures."""
        async with self._db.unit(scope):
            row = _one(await self._db.find(scope, NOTE_SIGNED, scope.tenant, signature_id, version, sha256))
            await self._statements.add(scope, "signature.change", signature_id)
        return row

    async def add_evidence(self, scope: Scope, signature_id: UUID, seq: int, attested: Attested) -> None:
        """Keep a record for good."""
        values = (signature_id, seq, attested.sha256, attested.record, attested.proof)
        async with self._db.unit(scope):
            await self._db.execute(scope, ADD_EVIDENCE, scope.tenant, *values)
            await self._statements.add(scope, "signature.attest", signature_id)

    async def history(self, scope: Scope, signature_id: UUID) -> list[Record]:
        """Every status that was reached, oldest first."""
        return [dict(row) for row in await self._db.fetch(scope, HISTORY, scope.tenant, signature_id)]

    async def evidence(self, scope: Scope, signature_id: UUID) -> list[Record]:
        """Every record, oldest first."""
        return [dict(row) for row in await self._db.fetch(scope, EVIDENCE, scope.tenant, signature_id)]

    async def list(
        self, scope: Scope, limit: int, before: UUID | None, status: str | None, document_id: UUID | None
    ) -> list[Record]:
        """Newest first."""
        rows = await self._db.fetch(scope, LIST, scope.tenant, limit, before or _AFTER_ALL, status, document_id)
        return [dict(row) for row in rows]

    async def _change(self, scope: Scope, sql: LiteralString, signature_id: UUID, *values: Any) -> bool:
        """Change one request; return whether it was one to be changed so."""
        async with self._db.unit(scope):
            if not await self._db.execute(scope, sql, scope.tenant, signature_id, *values):
                return False
            await self._statements.add(scope, "signature.change", signature_id)
        return True


def _record(row: Any) -> Record | None:
    return dict(row) if row is not None else None


def _one(row: Any) -> Record:
    if row is None:
        raise RuntimeError("an update gave no row")
    return dict(row)
