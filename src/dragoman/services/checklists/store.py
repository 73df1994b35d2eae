"""The SQL of checklists: the present content of each, and every patch that led to it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, UniqueViolated
from dragoman.services.checklists.errors import ChecklistNameTaken

Record = dict[str, Any]
_CHECKLIST: LiteralString = "id, name, matter_id, revision, content, created_by, created_at, updated_at"
_PATCH: LiteralString = "patch_id, digest, mode, revision, source_event, operations, made_by, made_at, task_id"
ADD: LiteralString = f"""
INSERT INTO checklists (tenant_id, id, name, matter_id, revision, content, created_by)
VALUES ($1, $2, $3, $4, 1, $5, $6) RETURNING {_CHECKLIST}"""
FIND: LiteralString = f"""
SELECT {_CHECKLIST} FROM checklists WHERE tenant_id = $1 AND (id = $2 OR name = $3)
ORDER BY (id = $2) IS TRUE DESC LIMIT 1"""
LOCK: LiteralString = f"SELECT {_CHECKLIST} FROM checklists WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
PATCHES: LiteralString = f"""
SELECT {_PATCH} FROM checklist_patches WHERE tenant_id = $1 AND checklist_id = $2 ORDER BY made_at DESC LIMIT $3"""
FIND_PATCH: LiteralString = f"""
SELECT {_PATCH} FROM checklist_patches WHERE tenant_id = $1 AND checklist_id = $2 AND patch_id = $3"""
ADD_PATCH: LiteralString = f"""
INSERT INTO checklist_patches
    (tenant_id, checklist_id, patch_id, digest, mode, revision, source_event, operations, made_by, task_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING {_PATCH}"""
CHANGE: LiteralString = """
UPDATE checklists SET content = $3, revision = $4, updated_at = now() WHERE tenant_id = $1 AND id = $2"""
FORGET_VALIDATIONS: LiteralString = "DELETE FROM checklist_validations WHERE tenant_id = $1 AND expires_at < now()"
ADD_VALIDATION: LiteralString = """
INSERT INTO checklist_validations (tenant_id, id, checklist_id, digest, revision, expires_at)
VALUES ($1, $2, $3, $4, $5, $6)"""
FIND_VALIDATION: LiteralString = """
SELECT 1 FROM checklist_validations
WHERE tenant_id = $1 AND id = $2 AND checklist_id = $3 AND digest = $4 AND revision = $5 AND expires_at > now()"""


@dataclass(frozen=True, slots=True)
class NewPatch:
    """A patch on its way in."""

    patch_id: str
    digest: bytes
    mode: str
    revision: int
    source_event: str | None
    operations: list[Record]
    made_by: str
    task_id: UUID


class ChecklistStore:
    """Checklists of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(
        self, scope: Scope, new_id: UUID, name: str | None, matter_id: str | None, content: Record, created_by: str
    ) -> Record:
        """A new checklist.

        Raises:
            ChecklistNameTaken: another one has the name.
        """
        try:
            row = await self._db.find(scope, ADD, scope.tenant, new_id, name, matter_id, content, created_by)
        except UniqueViolated:
            raise ChecklistNameTaken(str(name)) from None
        if row is None:
            raise RuntimeError("an insert gave no row")
        return dict(row)

    async def find(self, scope: Scope, ref: str) -> Record | None:
        """By its id or its name; the id wins."""
        row = await self._db.find(scope, FIND, scope.tenant, _id(ref), ref)
        return dict(row) if row else None

    async def list_patches(self, scope: Scope, checklist_id: UUID, limit: int) -> list[Record]:
        """Newest first."""
        return [dict(row) for row in await self._db.fetch(scope, PATCHES, scope.tenant, checklist_id, limit)]

    async def find_patch(self, scope: Scope, checklist_id: UUID, patch_id: str) -> Record | None:
        """A patch that was made."""
        row = await self._db.find(scope, FIND_PATCH, scope.tenant, checklist_id, patch_id)
        return dict(row) if row else None

    async def add_validation(
        self, scope: Scope, new_id: UUID, checklist_id: UUID, digest: bytes, revision: int, expires_at: datetime
    ) -> None:
        """That this patch would do at this revision, for a while; those whose time is over are forgotten."""
        await self._db.execute(scope, FORGET_VALIDATIONS, scope.tenant)
        await self._db.execute(scope, ADD_VALIDATION, scope.tenant, new_id, checklist_id, digest, revision, expires_at)

    async def is_validated(
        self, scope: Scope, validation_id: UUID, checklist_id: UUID, digest: bytes, revision: int
    ) -> bool:
        """Whether a validation is of this patch at this revision, and still holds."""
        row = await self._db.find(scope, FIND_VALIDATION, scope.tenant, validation_id, checklist_id, digest, revision)
        return row is not None

    async def add_patch(
        self, scope: Scope, checklist_id: UUID, patch: NewPatch, *, at_revision: int, content: Record | None
    ) -> Record | None:
        """Keep a patch, and with a content make it the present one; None when the checklist has moved.

        Of two that come at once with the same id, the first is kept and given to both.
        """
        async with self._db.unit(scope):
            row = await self._db.find(scope, LOCK, scope.tenant, checklist_id)
            if (made := await self.find_patch(scope, checklist_id, patch.patch_id)) is not None:
                return made
            if row is None or row["revision"] != at_revision:
                return None
            if content is not None:
                await self._db.execute(scope, CHANGE, scope.tenant, checklist_id, content, patch.revision)
            added = await self._db.find(
                scope, ADD_PATCH, scope.tenant, checklist_id, patch.patch_id, patch.digest, patch.mode,
                patch.revision, patch.source_event, patch.operations, patch.made_by, patch.task_id,
            )  # fmt: skip
            return dict(added) if added else None


def _id(ref: str) -> UUID | None:
    try:
        return UUID(ref)
    except ValueError:
        return None
