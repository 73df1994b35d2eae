"""Keeps the index on the heels of the repository.

Git is the truth. The index compares what the branch has with what it shows, content by content, so that it can be
interrupted anywhere, and so that what another server wrote is picked up with the next question.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.knowledge.items import MAIN, PROPOSALS, REJECTED, RepositoryState
from dragoman.services.knowledge.repositories import Repositories
from dragoman.services.knowledge.store import KnowledgeStore

_BATCH = 500
Progress = Callable[[int, int], Awaitable[None]]


class KnowledgeIndex:
    """What the repository holds, ready to be asked."""

    def __init__(self, store: KnowledgeStore, db: Database, repositories: Repositories) -> None:
        self._store = store
        self._db = db
        self._repositories = repositories
        self._seen: dict[UUID, RepositoryState] = {}

    async def refresh(self, scope: Scope, progress: Progress | None = None) -> None:
        """Show what the repository has now; costs one look at the rows of its branches when nothing has changed."""
        tenant = _tenant(scope)
        state = _state(await self._repositories.refs(scope))
        if self._seen.get(tenant) == state:
            return
        if state.head is not None:
            await self._follow(scope, state.head, progress)
        async with self._db.unit(scope):
            await self._store.lock(scope)
            await self._follow_proposals(scope, state.branches)

            async def remember() -> None:
                self._seen[tenant] = state

            await self._db.after_commit(remember)

    async def _follow(self, scope: Scope, head: str, progress: Progress | None) -> None:
        tenant = _tenant(scope)
        async with self._db.unit(scope):
            await self._store.lock(scope)
            if (await self._store.repository(scope))["indexed"] == head:
                return
            await self._store.aim(scope, head)
            known = await self._store.known(scope, MAIN)
        listing = await self._repositories.run(tenant, lambda shop: shop.items(head))
        changed = {path: blob for path, blob in listing.items() if known.get(path) != blob}
        paths = sorted(changed)
        for start in range(0, len(paths), _BATCH):
            batch = {path: changed[path] for path in paths[start : start + _BATCH]}
            if not await self._put(scope, MAIN, head, batch, aimed=True):
                return
            if progress is not None:
                await progress(min(start + _BATCH, len(paths)), len(paths))
        async with self._db.unit(scope):
            await self._store.lock(scope)
            if (await self._store.repository(scope))["indexing"] == head:
                await self._store.remove(scope, MAIN, [path for path in known if path not in listing])
                await self._store.arrive(scope, head)

    async def _put(self, scope: Scope, branch: str, commit: str, batch: dict[str, str], *, aimed: bool) -> bool:
        """Show a batch; False when another process is already on its way to a later commit."""
        async with self._db.unit(scope):
            await self._store.lock(scope)
            if aimed and (await self._store.repository(scope))["indexing"] != commit:
                return False
            before = await self._store.at_paths(scope, branch, list(batch))
            items, problems = await self._repositories.run(
                _tenant(scope), lambda shop: shop.records(commit, batch, before)
            )
            await self._store.put(scope, branch, items, problems if branch == MAIN else [])
        return True

    async def _follow_proposals(self, scope: Scope, branches: dict[str, str]) -> None:
        shown = await self._store.branches(scope)
        gone = [name for name, commit in shown.items() if branches.get(name) != commit]
        await self._store.remove_branches(scope, gone)
        for name, commit in branches.items():
            if shown.get(name) != commit:
                changed = await self._repositories.run(_tenant(scope), lambda shop, at=commit: shop.proposed(at))
                await self._put(scope, name, commit, changed, aimed=False)


def _state(refs: dict[str, str]) -> RepositoryState:
    branches = {name: commit for name, commit in refs.items() if name.startswith((PROPOSALS, REJECTED))}
    return RepositoryState(refs.get(MAIN), branches)


def _tenant(scope: Scope) -> UUID:
    if scope.tenant is None:
        raise ValueError("knowledge belongs to a tenant")
    return scope.tenant
