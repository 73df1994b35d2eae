"""The SQL of documents: versions and contents are only ever added."""

from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, UniqueViolated
from dragoman.services.audit.rows import RowGroup, RowTable
from dragoman.services.audit.statements import Statements
from dragoman.services.contracts.errors import DocumentClosed, NameTaken

Record = dict[str, Any]
_AFTER_ALL = UUID(int=2**128 - 1)

_VERSION: LiteralString = """
v.document_id, v.version, v.kind, encode(v.sha256, 'hex') AS sha256, v.size_bytes, v.media_type, v.made_by, v.made_at,
v.task_id, v.template, v.fields, encode(v.source_sha256, 'hex') AS source_sha256"""
_DOCUMENT: LiteralString = """
d.id, d.name, d.title, d.matter_id, d.about, d.state, d.version, d.executed_version, d.created_by, d.created_at,
d.updated_at"""
_NEWEST: LiteralString = f"""
{_DOCUMENT}, encode(v.sha256, 'hex') AS sha256, v.size_bytes, v.media_type
FROM documents d JOIN document_versions v
  ON v.tenant_id = d.tenant_id AND v.document_id = d.id AND v.version = d.version"""
# A name may look like an id; the id wins, so that nobody takes another document's place by its name.
FIND: LiteralString = f"""
SELECT {_NEWEST} WHERE d.tenant_id = $1 AND (d.id = $2 OR d.name = $3) ORDER BY (d.id = $2) IS TRUE DESC LIMIT 1"""
LOCK: LiteralString = f"""
SELECT {_DOCUMENT} FROM documents d WHERE d.tenant_id = $1 AND (d.id = $2 OR d.name = $3)
ORDER BY (d.id = $2) IS TRUE DESC LIMIT 1 FOR UPDATE"""
LIST: LiteralString = f"""
SELECT {_NEWEST} WHERE d.tenant_id = $1 AND d.id < $3 AND ($4::text IS NULL OR d.state = $4)
  AND ($5::text IS NULL OR d.matter_id = $5)
ORDER BY d.id DESC LIMIT $2"""
ADD: LiteralString = f"""
INSERT INTO documents AS d (tenant_id, id, name, title, matter_id, about, state, version, created_by)
VALUES ($1, $2, $3, $4, $5, $6, 'draft', 0, $7)
ON CONFLICT (tenant_id, name) DO UPDATE SET updated_at = now() RETURNING {_DOCUMENT}"""
VERSIONS: LiteralString = f"""
SELECT {_VERSION} FROM document_versions v WHERE v.tenant_id = $1 AND v.document_id = $2
ORDER BY v.version DESC LIMIT $3"""
FIND_VERSION: LiteralString = f"""
SELECT {_VERSION} FROM document_versions v WHERE v.tenant_id = $1 AND v.document_id = $2 AND v.version = $3"""
FIND_MADE: LiteralString = f"SELECT {_VERSION} FROM document_versions v WHERE v.tenant_id = $1 AND v.origin = $2"
ADD_VERSION: LiteralString = f"""
INSERT INTO document_versions AS v
    (tenant_id, document_id, version, kind, sha256, size_bytes, media_type, source_sha256, template, fields, made_by,
     task_id, origin)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING {_VERSION}"""
ADD_CONTENT: LiteralString = """
INSERT INTO document_contents (tenant_id, sha256, content) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"""
ADVANCE: LiteralString = """
UPDATE documents SET version = $3, updated_at = now() WHERE tenant_id = $1 AND id = $2"""
MOVE: LiteralString = """
UPDATE documents SET state = $3, executed_version = coalesce($4, executed_version), updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND state = ANY($5::text[])"""
READ: LiteralString = """
SELECT substring(content FROM $3 FOR $4) AS piece FROM document_contents WHERE tenant_id = $1 AND sha256 = $2"""
HAS: LiteralString = "SELECT 1 FROM document_contents WHERE tenant_id = $1 AND sha256 = $2"

# What a document and its versions promise; the audit trail is held against it. A content is known by its hash alone.
PROMISED = RowGroup(
    ids="SELECT id FROM documents WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3",
    tables=(
        RowTable(
            "documents",
            """SELECT id AS key, name, title, matter_id, about, state, version, executed_version, created_by
               FROM documents WHERE tenant_id = $1 AND id = ANY ($2)""",
        ),
        RowTable(
            "document_versions",
            """SELECT document_id || '/' || version AS key, kind, sha256, size_bytes, media_type, source_sha256,
                      template, fields, made_by, task_id, origin
               FROM document_versions WHERE tenant_id = $1 AND document_id = ANY ($2)""",
        ),
    ),
    broken="""
SELECT DISTINCT 'document_contents', h.sha256, 'content', h.sha256, encode(sha256(c.content), 'hex')
FROM document_versions v CROSS JOIN LATERAL (VALUES (v.sha256), (v.source_sha256)) AS k (key)
JOIN document_contents c ON c.tenant_id = v.tenant_id AND c.sha256 = k.key
CROSS JOIN LATERAL (SELECT encode(c.sha256, 'hex') AS sha256) h
WHERE v.tenant_id = $1 AND v.document_id = ANY ($2) AND sha256(c.content) <> c.sha256""",
)


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document on its way in."""

    id: UUID
    name: str | None
    title: str
    matter_id: str | None
    about: UUID | None = None


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version on its way in. Of one `origin` there is one version, however often it is added."""

    kind: str
    media_type: str
    content: bytes
    sha256: bytes
    made_by: str
    task_id: UUID | None = None
    origin: str | None = None
    template: str | None = None
    fields: Record | None = None
    source: bytes | None = None
    source_sha256: bytes | None = None


class DocumentStore:
    """Documents of a tenant, their versions, and contents by hash."""

    def __init__(self, db: Database, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    async def find(self, scope: Scope, ref: str) -> Record | None:
        """A document with its newest version, by its id or its name."""
        row = await self._db.find(scope, FIND, scope.tenant, _id(ref), ref)
        return dict(row) if row else None

    async def list_documents(
        self, scope: Scope, limit: int, before: UUID | None, state: str | None, matter_id: str | None
    ) -> list[Record]:
        """Newest first."""
        rows = await self._db.fetch(scope, LIST, scope.tenant, limit, before or _AFTER_ALL, state, matter_id)
        return [dict(row) for row in rows]

    async def list_versions(self, scope: Scope, document_id: UUID, limit: int) -> list[Record]:
        """Newest first."""
        return [dict(row) for row in await self._db.fetch(scope, VERSIONS, scope.tenant, document_id, limit)]

    async def find_version(self, scope: Scope, document_id: UUID, version: int) -> Record | None:
        """One version."""
        row = await self._db.find(scope, FIND_VERSION, scope.tenant, document_id, version)
        return dict(row) if row else None

    async def read(self, scope: Scope, sha256: str, *, offset: int, length: int) -> bytes | None:
        """A piece of a content; None when the tenant has none with this hash."""
        row = await self._db.find(scope, READ, scope.tenant, bytes.fromhex(sha256), offset + 1, length)
        return None if row is None else bytes(row["piece"])

    async def has(self, scope: Scope, sha256: str) -> bool:
        """Whether the tenant has a content with this hash."""
        return await self._db.find(scope, HAS, scope.tenant, bytes.fromhex(sha256)) is not None

    async def create(self, scope: Scope, new: NewDocument, version: NewVersion, *, reuse: bool = False) -> Record:
        """A document with its first version; with `reuse`, the next version of the one that has the name already.

        Raises:
            NameTaken: another document has the name.
            DocumentClosed: it takes no such version.
        """
        try:
            async with self._db.unit(scope):
                if (made := await self._find_made(scope, version.origin)) is not None:
                    return made
                row = await self._db.find(
                    scope, ADD, scope.tenant, new.id, new.name, new.title, new.matter_id, new.about, version.made_by
                )
                if row is None:
                    raise RuntimeError("an insert gave no row")
                if row["id"] != new.id and not reuse:
                    raise NameTaken(str(new.name))
                return await self._append(scope, dict(row), version)
        except UniqueViolated:
            # Another attempt at the same task was faster, with a document of its own; ours is rolled back.
            if (made := await self._find_made(scope, version.origin)) is not None:
                return made
            raise

    async def add_version(
        self, scope: Scope, ref: str, version: NewVersion, *, expected: int | None = None
    ) -> Record | int | None:
        """The next version of a document; None when there is none, its newest version when it is not the expected one.

        Raises:
            DocumentClosed: it takes no such version.
        """
        async with self._db.unit(scope):
            if (made := await self._find_made(scope, version.origin)) is not None:
                return made
            row = await self._db.find(scope, LOCK, scope.tenant, _id(ref), ref)
            if row is None:
                return None
            # Another attempt at the same task may have added it while this one waited for the lock.
            if (made := await self._find_made(scope, version.origin)) is not None:
                return made
            if expected is not None and row["version"] != expected:
                return int(row["version"])
            return await self._append(scope, dict(row), version)

    async def move(
        self, scope: Scope, document_id: UUID, *, to: str, after: list[str], executed_version: int | None = None
    ) -> bool:
        """Into another state, if it is in one of those before it."""
        async with self._db.unit(scope):
            moved = await self._db.execute(scope, MOVE, scope.tenant, document_id, to, executed_version, after)
            if moved:
                await self._statements.add(scope, "document.move", document_id, only={f"documents/{document_id}"})
        return bool(moved)

    async def _append(self, scope: Scope, document: Record, version: NewVersion) -> Record:
        # The document is locked: whoever had the same origin has written its version by now, or never will.
        if (made := await self._find_made(scope, version.origin)) is not None:
            return made
        state = document["state"]
        if state == "executed" or (state == "sent" and version.kind != "signed"):
            raise DocumentClosed(state)
        number = document["version"] + 1
        await self._db.execute(scope, ADD_CONTENT, scope.tenant, version.sha256, version.content)
        if version.source is not None:
            await self._db.execute(scope, ADD_CONTENT, scope.tenant, version.source_sha256, version.source)
        row = await self._db.find(
            scope, ADD_VERSION, scope.tenant, document["id"], number, version.kind, version.sha256,
            len(version.content), version.media_type, version.source_sha256, version.template, version.fields,
            version.made_by, version.task_id, version.origin,
        )  # fmt: skip
        await self._db.execute(scope, ADVANCE, scope.tenant, document["id"], number)
        written = {f"documents/{document['id']}", f"document_versions/{document['id']}/{number}"}
        await self._statements.add(scope, "document.add_version", document["id"], only=written)
        if row is None:
            raise RuntimeError("an insert gave no row")
        return dict(row)

    async def find_made(self, scope: Scope, origin: str) -> Record | None:
        """The version of this origin."""
        row = await self._db.find(scope, FIND_MADE, scope.tenant, origin)
        return dict(row) if row else None

    async def _find_made(self, scope: Scope, origin: str | None) -> Record | None:
        return await self.find_made(scope, origin) if origin is not None else None


def _id(ref: str) -> UUID | None:
    try:
        return UUID(ref)
    except ValueError:
        return None
