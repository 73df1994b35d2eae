"""Where a billing export comes from: an upload, a directory of the server, an address, or the account's own exports."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

import httpx

from dragoman.context import Caller
from dragoman.errors import UpstreamUnavailable
from dragoman.infra.db import scope_of
from dragoman.infra.outbound import OutboundRefused, TenantClients
from dragoman_costs.accounts.reading import AccountExports
from dragoman_costs.imports import models as m
from dragoman_costs.imports.errors import ImportRefused
from dragoman_costs.imports.files import ImportFiles
from dragoman_costs.imports.uploads import UploadService

_OK: Final = 200


class Sources:
    """Checks where a file is to come from, and brings it."""

    def __init__(
        self,
        uploads: UploadService,
        files: ImportFiles,
        clients: TenantClients,
        exports: AccountExports,
        *,
        directories: list[Path],
        most_bytes: int,
    ) -> None:
        self._uploads = uploads
        self._files = files
        self._clients = clients
        self._exports = exports
        self._directories = directories
        self._most_bytes = most_bytes

    async def check(self, caller: Caller, request: m.ImportFile) -> tuple[dict[str, Any], str]:
        """Return the source as it is kept, and the name of the file.

        Raises:
            DragomanError: there is no such file, or it may not be read.
        """
        if request.upload_id is not None:
            name = await self._uploads.check(scope_of(caller), request.upload_id)
            return {"upload_id": str(request.upload_id)}, name
        if request.path is not None:
            await self._resolve(caller, request.path)
            return {"path": request.path}, PurePosixPath(request.path).name
        if request.export is not None:
            return {"export": request.export, "account_id": str(request.account_id)}, request.export
        url = request.url or ""
        await self._clients.check(caller.tenant, url)
        # What is signed stands in the query, and is nothing for a report.
        return {"url": url}, PurePosixPath(urlsplit(url).path).name or "export"

    async def fetch(self, caller: Caller, source: dict[str, Any], work: Path) -> Path:
        """Bring the file; return where it is.

        Raises:
            DragomanError: it is not there, may not be read, or is too large.
        """
        if (path := source.get("path")) is not None:
            return await self._resolve(caller, path)
        into = work / "source"
        if (upload_id := source.get("upload_id")) is not None:
            await self._uploads.fetch(scope_of(caller), upload_id, into)
        elif (name := source.get("export")) is not None:
            async with self._exports.open(caller, UUID(source["account_id"]), name) as pieces:
                await self._files.write(caller.tenant, into, self._bounded(pieces))
        else:
            await self._download(caller, source["url"], into)
        return into

    async def finished(self, caller: Caller, source: dict[str, Any]) -> None:
        """Forget an upload that was imported."""
        if (upload_id := source.get("upload_id")) is not None:
            await self._uploads.remove(scope_of(caller), upload_id)

    async def _resolve(self, caller: Caller, path: str) -> Path:
        roots = [directory / caller.tenant_slug for directory in self._directories if caller.tenant_slug]
        found = await self._files.resolve(caller.tenant, path, roots)
        if found is None:
            where = (
                "the tenant's directory in DRAGOMAN_COSTS__IMPORT_DIRS"
                if roots
                else "DRAGOMAN_COSTS__IMPORT_DIRS, which is unset"
            )
            raise ImportRefused("NO_SUCH_FILE", f"there is no file {path!r} below {where}")
        return found

    async def _download(self, caller: Caller, url: str, into: Path) -> None:
        client = self._clients.of(caller.tenant)
        host = urlsplit(url).hostname or ""
        try:
            async with client.stream("GET", url) as response:
                if response.status_code >= 500:
                    raise UpstreamUnavailable(host)
                if response.status_code != _OK:
                    raise ImportRefused("NO_SUCH_FILE", f"{host} answered with status {response.status_code}")
                await self._files.write(caller.tenant, into, self._bounded(response.aiter_raw(1_048_576)))
        except OutboundRefused:
            raise
        except httpx.HTTPError as error:
            raise UpstreamUnavailable(host) from error

    async def _bounded(self, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
        size = 0
        async for chunk in pieces:
            size += len(chunk)
            if size > self._most_bytes:
                raise ImportRefused(
                    "TOO_LARGE", f"it is larger than {self._most_bytes:,} bytes (DRAGOMAN_COSTS__MAX_IMPORT_BYTES)"
                )
            yield chunk
