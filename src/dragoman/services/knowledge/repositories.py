"""Where the repositories are: one a tenant, opened in a thread and only there."""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from dragoman.errors import ExtraMissing

if TYPE_CHECKING:
    from dragoman.services.knowledge.workshop import Workshop

T = TypeVar("T")
# When the main branch was last written, as the file system tells it.
Stamp = tuple[tuple[int, int] | None, ...]
EXTRA = "knowledge"

# A branch is a file of its own until git packs it.
_HEADS = ("refs/heads/main", "packed-refs")


class Repositories:
    """Gives work a repository. Git is loaded with the first use: an idle server does without it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, tenant: UUID) -> Path:
        """Where a tenant's repository is, or will be."""
        return self._directory / f"{tenant}.git"

    def stamp(self, tenant: UUID) -> Stamp | None:
        """What changes whenever the main branch does, at the price of two looks; None where nothing was written."""
        found = tuple(_written(self.path(tenant) / name) for name in _HEADS)
        return found if any(found) else None

    async def run(self, tenant: UUID, work: "Callable[[Workshop], T]") -> T:
        """Do something with a tenant's repository, in a thread.

        Raises:
            ExtraMissing: this installation has no git.
        """
        return await asyncio.to_thread(lambda: work(self._open(tenant)))

    def _open(self, tenant: UUID) -> "Workshop":
        try:
            from dragoman.services.knowledge.workshop import Workshop  # noqa: PLC0415
        except ImportError as error:
            raise ExtraMissing(EXTRA) from error
        return Workshop(self.path(tenant))

    def list(self) -> list[UUID]:
        """The tenants that have a repository here."""
        found: list[UUID] = []
        for directory in self._directory.glob("*.git"):
            with suppress(ValueError):  # somebody else's
                found.append(UUID(directory.stem))
        return found

    def remove(self, tenant: UUID) -> None:
        """Take a tenant's repository off the disk, with all its history."""
        shutil.rmtree(self.path(tenant), ignore_errors=True)

    def check(self) -> str | None:
        """What is wrong with the directory, in words for the world, or None."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with (self._directory / ".writable").open("wb"):
                pass
        except OSError as error:
            return f"the repositories cannot be written: {error.strerror}"
        return None


def _written(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino
