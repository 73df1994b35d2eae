"""Files of imports on the disk of the server, read and written on threads of their own."""

import shutil
from collections.abc import AsyncGenerator, AsyncIterable, Hashable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from dragoman.blocking import Threads

_CHUNK: Final = 1_048_576


class ImportFiles:
    """The work directories of imports, each of which lasts as long as one attempt."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._threads = Threads("cost-imports", 8, share=4)

    @asynccontextmanager
    async def directory(self, tenant: Hashable, import_id: UUID) -> AsyncGenerator[Path]:
        """Make the directory of an import, without what an attempt before this one left; remove it in the end."""
        path = self._directory / str(import_id)
        await self._threads.run(tenant, _make, path)
        try:
            yield path
        finally:
            await self._threads.run(tenant, remove, path)

    async def write(self, tenant: Hashable, path: Path, content: AsyncIterable[bytes]) -> None:
        """Write what comes."""
        with await self._threads.run(tenant, path.open, "wb") as file:
            async for chunk in content:
                await self._threads.run(tenant, file.write, chunk)

    async def read(self, tenant: Hashable, path: Path) -> AsyncGenerator[bytes]:
        """Yield what a file holds."""
        with await self._threads.run(tenant, path.open, "rb") as file:
            while chunk := await self._threads.run(tenant, file.read, _CHUNK):
                yield chunk

    async def resolve(self, tenant: Hashable, path: str, roots: list[Path]) -> Path | None:
        """Return the file of this name below one of the roots, links followed; None where there is none."""
        return await self._threads.run(tenant, _resolve, path, roots)

    async def remove(self, tenant: Hashable, path: Path) -> None:
        """Remove a file or a directory that is no longer needed."""
        await self._threads.run(tenant, remove, path)


def _make(path: Path) -> None:
    remove(path)
    path.mkdir(mode=0o700, parents=True)


def remove(path: Path) -> None:
    """Remove a file or a directory, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _resolve(name: str, roots: list[Path]) -> Path | None:
    for root in roots:
        with suppress(OSError, ValueError):
            base = root.resolve(strict=True)
            path = (base / name).resolve(strict=True)
            if path.is_relative_to(base) and path.is_file():
                return path
    return None
