"""Filling a tenant's repository from a remote one: fetch, merge, index; each can be repeated from any point."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from threading import Event
from typing import TYPE_CHECKING

from dragoman.context import Caller, report_progress
from dragoman.errors import Forbidden, InvalidInput
from dragoman.infra.db import Database, Scope, scope_of
from dragoman.services.knowledge import models as m
from dragoman.services.knowledge.curation import Clock, now, signed
from dragoman.services.knowledge.index import KnowledgeIndex
from dragoman.services.knowledge.items import MAIN
from dragoman.services.knowledge.repositories import Repositories
from dragoman.services.knowledge.service import shown_problem
from dragoman.services.knowledge.store import KnowledgeStore

if TYPE_CHECKING:
    from dragoman.services.knowledge.remotes import Merge
    from dragoman.services.knowledge.workshop import Workshop

_SCP = re.compile(r"^(?:[\w.-]+@)?([\w.-]+):(?!//)[\w./~-]+$")
_MOST_PROBLEMS = 500


class RemoteRules:
    """Which remotes may be fetched from."""

    def __init__(self, check_url: Callable[[str], Awaitable[None]], *, allow_files: bool, most_bytes: int) -> None:
        self._check_url = check_url
        self._allow_files = allow_files
        self.most_bytes = most_bytes

    async def check(self, remote: str) -> None:
        """Refuse what this server must not read.

        Raises:
            InvalidInput: it is no address of a repository, or a path where paths are not allowed.
            OutboundRefused: its host may not be reached.
        """
        if remote.startswith("https://"):
            await self._check_url(remote)
        elif remote.startswith("ssh://"):
            host = remote.removeprefix("ssh://").partition("/")[0].rpartition("@")[2].partition(":")[0]
            await self._check_url(f"https://{host}/")
        elif remote.startswith(("/", "file://")):
            if not self._allow_files:
                raise InvalidInput.of("remote", "paths of the server are not allowed (see ALLOW_FILE_REMOTES)")
        elif (matched := _SCP.match(remote)) is not None:
            await self._check_url(f"https://{matched[1]}/")
        else:
            raise InvalidInput.of("remote", "must be https://..., ssh://... or git@host:path")


class Syncer:
    """Merges remotes. It holds no transaction while it fetches."""

    def __init__(
        self,
        store: KnowledgeStore,
        index: KnowledgeIndex,
        repositories: Repositories,
        db: Database,
        rules: RemoteRules,
        *,
        may_connect: Callable[[Caller], bool],
        clock: Clock = now,
    ) -> None:
        self._store = store
        self._index = index
        self._repositories = repositories
        self._db = db
        self._rules = rules
        self._may_connect = may_connect
        self._clock = clock

    async def sync(self, caller: Caller, wanted: m.SyncKnowledge) -> m.SyncResult:
        """Fetch, merge, index, and say how far it is.

        Raises:
            RemoteUnavailable: the remote cannot be had; nothing is changed.
            Forbidden: it is another remote than before, and the caller may not accept.
        """
        scope = scope_of(caller)
        known = await self._store.find_repository(scope) or {}
        remote = wanted.remote or known.get("remote")
        same = wanted.remote in (None, known.get("remote"))
        branch = wanted.branch or (known.get("branch") if same else None) or MAIN
        if remote is None:
            raise InvalidInput.of("remote", "is needed: nothing was synced before")
        if (remote, branch) != (known.get("remote"), known.get("branch")) and not self._may_connect(caller):
            raise Forbidden("another remote than before needs the permission accept:knowledge")
        await self._rules.check(remote)
        await self._index.refresh(scope)
        theirs = await self._fetch(caller, remote, branch)
        await report_progress("merging", 50)
        before, merge = await self._merge(caller, scope, remote, branch, theirs, wanted.on_conflict)
        await self._index.refresh(scope, _tell_indexed)
        after = await self._repositories.run(caller.tenant, lambda shop: shop.items(merge.head) if merge.head else {})
        problems = [shown_problem(one) for one in await self._store.problems(scope, _MOST_PROBLEMS)]
        disputed = [
            m.KnowledgeProblem(
                kind="merge_conflict", file=path, line=1, item_id=None, message="both sides changed this file"
            )
            for path in merge.conflicts
        ]
        return m.SyncResult(
            remote=remote,
            branch=branch,
            merged=not merge.conflicts,
            head=merge.head,
            added=len(after.keys() - before.keys()),
            updated=sum(before[path] != after[path] for path in before.keys() & after.keys()),
            deleted=len(before.keys() - after.keys()),
            conflicts=[*disputed, *problems],
        )

    async def _fetch(self, caller: Caller, remote: str, branch: str) -> str:
        await report_progress(f"fetching {remote}", 0)
        stopped, loop = Event(), asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

        def tell(received: int, total: int) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, (received, total))

        def work(shop: "Workshop") -> str:
            return shop.fetch(
                remote,
                branch,
                most_bytes=self._rules.most_bytes,
                stopped=stopped,
                tell=tell,
            )

        fetching = asyncio.ensure_future(self._repositories.run(caller.tenant, work))
        try:
            while not fetching.done():
                await asyncio.wait([fetching], timeout=0.5)
                latest = None
                while not pieces.empty():
                    latest = pieces.get_nowait()
                if latest is not None and not fetching.done():
                    received, total = latest
                    await report_progress(f"fetched {received} of {total} objects", 50 * received / max(1, total))
            return await fetching
        finally:
            stopped.set()

    async def _merge(
        self, caller: Caller, scope: Scope, remote: str, branch: str, theirs: str, on_conflict: str
    ) -> "tuple[dict[str, str], Merge]":
        async with self._db.unit(scope):
            await self._store.lock(scope)
            await self._store.repository(scope)

            def work(shop: "Workshop") -> "tuple[dict[str, str], Merge]":
                head = shop.repository.find_head()
                before = shop.items(head) if head else {}
                signature = signed(caller, self._clock(), None)
                return before, shop.merge(theirs, signature, remote=remote, on_conflict=on_conflict)

            before, merge = await self._repositories.run(caller.tenant, work)
            if not merge.conflicts:
                await self._store.synced(scope, remote, branch, theirs)
        return before, merge


async def _tell_indexed(done: int, total: int) -> None:
    await report_progress(f"indexed {done} of {total} items", 50 + 50 * done / max(1, total))
