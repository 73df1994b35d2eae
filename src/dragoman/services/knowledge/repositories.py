"""The tenants' repositories: rows of PostgreSQL, worked with in a directory that any server can fill again from them.

Git is worked with in a thread and only there. A write is part of a transaction: its objects and branches become rows
with everything else that the operation changes, or not at all.
"""

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import structlog

from dragoman.blocking import Threads
from dragoman.errors import DragomanError, ExtraMissing, UpstreamUnavailable
from dragoman.infra.db import Database, Scope
from dragoman.services.knowledge.store_git import PREFIX, GitStore, Kept, Pack, Snapshot

if TYPE_CHECKING:
    from dragoman.services.knowledge.workshop import Workshop

T = TypeVar("T")
EXTRA = "knowledge"
_THREADS, _SHARE = 8, 2
_LOG = structlog.get_logger(__name__)
_UNREADABLE = "the repository of knowledge"
_MOST_PROBED = 5


class Repositories:
    """Gives work a repository. Git is loaded with the first use: an idle server does without it."""

    def __init__(self, directory: Path, store: GitStore, db: Database) -> None:
        self._directory = directory
        self._store = store
        self._db = db
        self._threads = Threads("git", _THREADS, share=_SHARE)
        # Probes and the removal of leftovers never wait for the work of tenants.
        self._own_threads = Threads("git-own", 2)
        self._failing: set[UUID] = set()
        self._taken_over: set[UUID] = set()

    def path(self, tenant: UUID) -> Path:
        """Where the cache of a tenant's repository is, or will be."""
        return self._directory / f"{tenant}.git"

    async def head(self, tenant: UUID) -> str | None:
        """Return the commit of the main branch, at the price of one short statement; None where there is none.

        Raises:
            UpstreamUnavailable: the repository is not in the rows yet, and not in the directory of this server; or its
                main branch is gone.
        """
        return (await self._state(self._db.scope_for(tenant))).head

    async def refs(self, scope: Scope) -> dict[str, str]:
        """Return the branches with their commits.

        Raises:
            UpstreamUnavailable: as for `head`.
        """
        return await self._store.refs(scope) if (await self._state(scope)).kept else {}

    async def run(self, tenant: UUID, work: "Callable[[Workshop], T]") -> T:
        """Read from a tenant's repository, in a thread.

        Raises:
            ExtraMissing: this installation has no git.
            UpstreamUnavailable: the repository cannot be read here now.
        """
        scope = self._db.scope_for(tenant)
        await self.refs(scope)
        snapshot = await self._store.read(scope, self._installed(tenant))
        return await self._in_thread(tenant, snapshot, work)

    async def write(self, scope: Scope, work: "Callable[[Workshop], T]") -> T:
        """Change a tenant's repository, in a thread; rows of branches and objects follow in the unit of work.

        Raises:
            ExtraMissing: this installation has no git.
            UpstreamUnavailable: the repository cannot be written here now.
            Moved: a branch is no longer where the work saw it.
        """
        tenant = _tenant(scope)
        async with self._db.unit(scope):
            await self._store.lock(scope)
            await self.refs(scope)
            await self._store.keep(scope)
            snapshot = await self._store.read(scope, self._installed(tenant))

            def worked(shop: "Workshop") -> "tuple[T, Pack | None, list[str]]":
                result = work(shop)
                return result, *shop.packed(snapshot)

            shop, (result, pack, replaced) = await self._in_thread(tenant, snapshot, lambda shop: (shop, worked(shop)))
            await self._store.apply(scope, shop.repository.moves, pack, replaced)
        return result

    async def take_over(self, tenants: Iterable[UUID]) -> None:
        """Move what an earlier release left in the directory of this server into the rows, once per process."""
        for tenant in tenants:
            if tenant not in self._taken_over:
                with suppress(DragomanError):  # it is logged, and tried again by who needs it
                    await self.head(tenant)
                    self._taken_over.add(tenant)

    async def list(self) -> list[UUID]:
        """The tenants that have a cache here."""
        return await self._own_threads.run(None, self._list)

    def _list(self) -> "list[UUID]":
        found: list[UUID] = []
        for directory in self._directory.glob("*.git"):
            with suppress(ValueError):  # somebody else's
                found.append(UUID(directory.stem))
        return found

    async def remove(self, tenant: UUID) -> None:
        """Take the cache of a tenant's repository off the disk."""
        self._failing.discard(tenant)
        await self._own_threads.run(None, lambda: shutil.rmtree(self.path(tenant), ignore_errors=True))

    async def check(self) -> str | None:
        """What is wrong with the repositories, in words for the world, or None; those that failed are tried again."""
        if (wrong := await self._own_threads.run(None, self._check_directory)) is not None:
            return wrong
        for tenant in sorted(self._failing)[:_MOST_PROBED]:
            with suppress(DragomanError):
                await self.run(tenant, lambda shop: shop.check_readable())
        count = len(self._failing)
        return f"the knowledge of {count} tenants cannot be read: what its policies guard is refused" if count else None

    async def _state(self, scope: Scope) -> Kept:
        state = await self._store.state(scope)
        if not state.kept and await self._adopt(scope):
            state = await self._store.state(scope)
        if state.lost:
            # Without it there would be no policies, and everything would be allowed.
            tenant = _tenant(scope)
            self._failing.add(tenant)
            _LOG.error("knowledge.main_branch_lost", tenant_id=str(tenant), indexed=state.indexed)
            raise UpstreamUnavailable(f"{_UNREADABLE}, whose main branch is gone from the database,")
        return state

    async def _adopt(self, scope: Scope) -> bool:
        """Move a repository from the directory, where it was before it was rows; False where there is none yet."""
        tenant = _tenant(scope)
        if self._exists(tenant):
            async with self._db.unit(scope):
                await self._store.lock(scope)
                state = await self._store.state(scope)
                if state.kept:
                    return True
                shop, (pack, replaced) = await self._in_thread(
                    tenant, Snapshot({}, ()), lambda shop: (shop, shop.adopted())
                )
                # A directory that lacks what the index shows is not the one that it was made from.
                whole = bool(shop.repository.moves) and (state.indexed is None or shop.repository.has(state.indexed))
                if whole or not state.elsewhere:
                    await self._store.apply(scope, shop.repository.moves, pack, replaced)
                    await self._store.keep(scope)
                    _LOG.info("knowledge.repository_adopted", tenant_id=str(tenant))
                    return True
        if (await self._store.state(scope)).elsewhere:
            self._failing.add(tenant)
            _LOG.error("knowledge.repository_elsewhere", tenant_id=str(tenant))
            raise UpstreamUnavailable(f"{_UNREADABLE}, which is in the directory of another server,")
        return False

    async def _in_thread(self, tenant: UUID, snapshot: Snapshot, work: "Callable[[Workshop], T]") -> T:
        try:
            result = await self._threads.run(tenant, lambda: self._work(tenant, snapshot, work))
        except UpstreamUnavailable:
            self._failing.add(tenant)
            _LOG.exception("knowledge.repository_unreadable", tenant_id=str(tenant))
            raise
        self._failing.discard(tenant)
        return result

    def _work(self, tenant: UUID, snapshot: Snapshot, work: "Callable[[Workshop], T]") -> T:
        try:
            from dragoman.services.knowledge.workshop import DAMAGE, Workshop  # noqa: PLC0415
        except ImportError as error:
            raise ExtraMissing(EXTRA) from error
        try:
            return work(Workshop(self.path(tenant), snapshot))
        except DAMAGE as error:
            raise UpstreamUnavailable(_UNREADABLE) from error

    def _exists(self, tenant: UUID) -> bool:
        return (self.path(tenant) / "HEAD").exists()

    def _installed(self, tenant: UUID) -> "list[str]":
        """The names of the packs of the rows that the cache has."""
        folder = self.path(tenant) / "objects" / "pack"
        return [one.stem.removeprefix(PREFIX) for one in folder.glob(f"{PREFIX}*.idx")]

    def _check_directory(self) -> str | None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with (self._directory / ".writable").open("wb"):
                pass
        except OSError as error:
            return f"the repositories cannot be written: {error.strerror}"
        return None


def _tenant(scope: Scope) -> UUID:
    if scope.tenant is None:
        raise ValueError("knowledge belongs to a tenant")
    return scope.tenant
