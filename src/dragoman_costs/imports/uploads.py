"""Files that are larger than a body: sent in parts that survive a crash, checked when they are read."""

import hashlib
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import Conflict, InvalidInput, NotFound
from dragoman.infra.db import Scope, scope_of
from dragoman_costs.imports import models as m
from dragoman_costs.imports.errors import ImportRefused, UploadIncomplete
from dragoman_costs.imports.files import ImportFiles
from dragoman_costs.imports.store_uploads import UploadStore

_KEPT: Final = timedelta(days=1)
_MOST_SHOWN: Final = 1_000


class UploadService:
    """Takes files in parts, and puts them together."""

    def __init__(self, store: UploadStore, files: ImportFiles, *, most_bytes: int, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._files = files
        self._most_bytes = most_bytes
        self._new_id = new_id

    async def begin(self, caller: Caller, new: m.BeginUpload) -> m.Upload:
        """Begin an upload.

        Raises:
            InvalidInput: it is larger than an import may be.
            Conflict: the tenant's other uploads leave no room for it.
        """
        scope = scope_of(caller)
        if new.size_bytes > self._most_bytes:
            raise InvalidInput.of(
                "size_bytes", f"is above {self._most_bytes:,} (DRAGOMAN_COSTS__MAX_IMPORT_BYTES): split the file"
            )
        if await self._store.size(scope) + new.size_bytes > 2 * self._most_bytes:
            raise Conflict("uploads that are not imported yet leave no room: import them, or wait until they expire")
        row = await self._store.add(
            scope, self._new_id(), file_name=new.file_name, size=new.size_bytes, sha256=new.sha256,
            part_bytes=m.PART_BYTES, by=caller.subject, keep=_KEPT,
        )  # fmt: skip
        return _shown(row, set())

    async def add_part(self, caller: Caller, part: m.AddPart) -> m.PartAdded:
        """Keep a part; one that has arrived before stays as it is.

        Raises:
            NotFound: there is no such upload, or it has expired.
            InvalidInput: the part has another size than its place demands.
        """
        scope = scope_of(caller)
        upload = await self._get(scope, part.upload_id)
        count = _parts(upload)
        if part.number > count:
            raise InvalidInput.of("number", f"the upload has {count} parts")
        last = upload["size_bytes"] - (count - 1) * upload["part_bytes"]
        size = last if part.number == count else upload["part_bytes"]
        if len(part.content) != size:
            raise InvalidInput.of("content", f"part {part.number} has {size} bytes, and {len(part.content)} were sent")
        await self._store.add_part(scope, part.upload_id, part.number, part.content)
        return m.PartAdded(upload_id=part.upload_id, number=part.number)

    async def show(self, caller: Caller, ref: m.UploadRef) -> m.Upload:
        """Return an upload and what is missing of it.

        Raises:
            NotFound: there is no such upload, or it has expired.
        """
        scope = scope_of(caller)
        upload = await self._get(scope, ref.upload_id)
        return _shown(upload, await self._store.list_parts(scope, ref.upload_id))

    async def check(self, scope: Scope, upload_id: UUID) -> str:
        """Return the name of the file of a finished upload.

        Raises:
            NotFound: there is no such upload, or it has expired.
            UploadIncomplete: parts are missing.
        """
        upload = await self._get(scope, upload_id)
        shown = _shown(upload, await self._store.list_parts(scope, upload_id))
        if shown.missing_parts:
            raise UploadIncomplete(
                f"the upload lacks parts, from part {shown.missing_parts[0]} of {shown.parts}: send them first",
                missing=shown.missing_parts,
            )
        return shown.file_name

    async def fetch(self, scope: Scope, upload_id: UUID, into: Path) -> None:
        """Put a finished upload together.

        Raises:
            NotFound: there is no such upload, or it has expired.
            UploadIncomplete: parts are missing.
            ImportRefused: what was sent is not what was announced.
        """
        await self.check(scope, upload_id)
        upload = await self._get(scope, upload_id)
        digest = hashlib.sha256()

        async def content() -> AsyncGenerator[bytes]:
            async for part in self._store.read(scope, upload_id, _parts(upload)):
                digest.update(part)
                yield part

        await self._files.write(scope.tenant, into, content())
        if digest.hexdigest() != upload["sha256"]:
            raise ImportRefused(
                "WRONG_SHA256", "what was uploaded has another SHA-256 than was announced: send it again"
            )

    async def remove(self, scope: Scope, upload_id: UUID) -> None:
        """Remove an upload that was imported."""
        await self._store.remove(scope, upload_id)

    async def _get(self, scope: Scope, upload_id: UUID) -> dict[str, Any]:
        upload = await self._store.find(scope, upload_id)
        if upload is None:
            raise NotFound("upload", upload_id)
        return upload


def _parts(upload: dict[str, Any]) -> int:
    return -(-upload["size_bytes"] // upload["part_bytes"])


def _shown(upload: dict[str, Any], arrived: set[int]) -> m.Upload:
    parts = _parts(upload)
    missing = [number for number in range(1, parts + 1) if number not in arrived]
    return m.Upload.model_validate({**upload, "parts": parts, "missing_parts": missing[:_MOST_SHOWN]})
