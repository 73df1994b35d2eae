"""Filling a tenant's repository from a remote one: fetch, merge, index; each can be repeated from any point."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import structlog

from dragoman.context import Caller, report_progress
from dragoman.errors import Forbidden, InvalidInput
from dragoman.infra.breaker import Breakers
from dragoman.infra.children import ChildDied, Children, ChildTimedOut, Limits
from dragoman.infra.db import Database, Scope, scope_of
from dragoman.infra.outbound import Address, NotResolved, Target, Upstream, resolving_for
from dragoman.services.knowledge import models as m
from dragoman.services.knowledge.curation import Clock, now, signed
from dragoman.services.knowledge.errors import RemoteProblem, RemoteUnavailable
from dragoman.services.knowledge.index import KnowledgeIndex
from dragoman.services.knowledge.items import MAIN
from dragoman.services.knowledge.ports import Consent, Merging
from dragoman.services.knowledge.repositories import Repositories
from dragoman.services.knowledge.routes import RemoteKey, Route
from dragoman.services.knowledge.service import shown_problem
from dragoman.services.knowledge.store import KnowledgeStore

if TYPE_CHECKING:
    from dragoman.services.knowledge.remotes import Merge
    from dragoman.services.knowledge.workshop import Workshop

_LOG = structlog.get_logger(__name__)
FindKey = Callable[[Caller, str], Awaitable[RemoteKey | None]]
Resolve = Callable[[str], Awaitable[tuple[Target, tuple[Address, ...]]]]
_MOST_PROBLEMS = 500
_FETCHES: Final = 8
_PROGRESS_S: Final = 0.5
# A remote that says nothing for so long is given up.
LONGEST_SILENCE_S: Final = 15.0
# For indexing what was fetched, up to half a gigabyte; libgit2 maps packs into memory.
_FETCH_LIMITS: Final = Limits(timeout_s=300, cpu_s=120, memory_bytes=4 << 30)
# What libgit2 needs to trust a host. The home and the SSH agent of the server's user are nobody's to use.
_ENVIRONMENT: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class RemoteRules:
    """Which remotes may be fetched from, and by which addresses."""

    def __init__(
        self, resolve: Resolve, breakers: Breakers, *, allow_files: bool, most_bytes: int, request_s: float
    ) -> None:
        self._resolve = resolve
        self.breakers = breakers
        self._allow_files = allow_files
        self.most_bytes = most_bytes
        # A request that ran out of time because of it would tell a silent port from a closed one.
        self.silence_s = min(LONGEST_SILENCE_S, request_s / 2)

    async def route(self, remote: str) -> Route:
        """Resolve a remote, once: what is judged here is what is connected to.

        Raises:
            InvalidInput: it is no address of a repository, or a path where paths are not allowed.
            OutboundRefused: its host may not be reached.
            RemoteUnavailable: its name leads nowhere at present.
        """
        route = Route.of(remote)
        if route.scheme == "file":
            if not self._allow_files:
                raise InvalidInput.of("remote", "paths of the server are not allowed (see ALLOW_FILE_REMOTES)")
            return route
        try:
            target, addresses = await self._resolve(route.judged_url)
        except NotResolved:
            raise RemoteUnavailable(remote, RemoteProblem.UNREACHABLE) from None
        return replace(route, host=target.host, port=target.port, addresses=tuple(map(str, addresses)))


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
        find_key: FindKey,
        may_connect: Callable[[Caller], bool],
        clock: Clock = now,
    ) -> None:
        self._store = store
        self._index = index
        self._repositories = repositories
        self._db = db
        self._rules = rules
        self._find_key = find_key
        # As for the curator: approvals are built on policies, which are knowledge.
        self.consent: Consent | None = None
        self._may_connect = may_connect
        self._clock = clock
        # One at a time for a tenant: a second fetch into the same repository would wait for the first.
        self._fetching = Children(
            "dragoman.services.knowledge.fetching",
            size=_FETCHES,
            share=1,
            limits=_FETCH_LIMITS,
            environment=_ENVIRONMENT,
        )

    async def stop(self) -> None:
        """End the processes that fetched."""
        await self._fetching.stop()

    async def sync(self, caller: Caller, wanted: m.SyncKnowledge) -> m.SyncResult:
        """Fetch, merge, index, and say how far it is.

        Raises:
            RemoteUnavailable: the remote cannot be had; nothing is changed.
            UpstreamUnavailable: its host has failed too often, and is left alone for a moment.
            Forbidden: the caller may not accept, and it is another remote than before or ends a policy.
            DragomanError: it ends a policy, and an approval of that is needed and not there, or is no good.
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
        with resolving_for(caller.tenant):
            route = await self._rules.route(remote)
        key = await self._find_key(caller, remote)
        if key is None and route.scheme == "ssh":
            # Without a pinned key of the host nobody could be believed there.
            raise RemoteUnavailable(remote, RemoteProblem.UNAUTHORIZED)
        await self._index.refresh(scope)
        async with self._rules.breakers.guard(
            Upstream.GIT.value, host=f"{route.host}:{route.port}", tenant=caller.tenant
        ) as call:
            try:
                theirs = await self._fetch(caller, route, branch, key)
            except RemoteUnavailable as error:
                call.failed = error.problem is RemoteProblem.UNREACHABLE
                raise
        await report_progress("merging", 50)
        before, merge = await self._merge(caller, scope, remote, branch, theirs, wanted)
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

    async def _fetch(self, caller: Caller, route: Route, branch: str, key: RemoteKey | None) -> str:
        await report_progress(f"fetching {route.remote}", 0)
        # The process that fetches knows the directory alone; it says what is here by the branch that it finds there.
        await self._repositories.run(caller.tenant, lambda shop: shop.repository.show_remotes())
        latest: list[dict[str, Any]] = []
        request = {
            "repository": str(self._repositories.path(caller.tenant)),
            "route": route.written(),
            "branch": branch,
            "key": key.written() if key is not None else None,
            "silence_s": self._rules.silence_s,
            "most_bytes": self._rules.most_bytes,
        }
        receiving = False
        fetching = asyncio.ensure_future(self._fetching.ask(caller.tenant, request, progress=latest.append))
        try:
            while not fetching.done():
                await asyncio.wait([fetching], timeout=_PROGRESS_S)
                if latest and not fetching.done():
                    receiving = True
                    received, total = latest[-1]["received"], latest[-1]["total"]
                    latest.clear()
                    await report_progress(f"fetched {received} of {total} objects", 50 * received / max(1, total))
            answer = await fetching
        except ChildTimedOut:
            # One that keeps us waiting without a byte of the repository is told like one that is not there.
            problem = RemoteProblem.TOO_MUCH if receiving else RemoteProblem.UNREACHABLE
            answer = {"problem": problem, "detail": f"it took longer than {_FETCH_LIMITS.timeout_s} s"}
        except ChildDied:
            answer = {"problem": RemoteProblem.TOO_MUCH, "detail": "the process that fetched reached its limits"}
        finally:
            fetching.cancel()
        if "problem" in answer:
            problem = RemoteProblem(answer["problem"])
            _LOG.warning(
                "knowledge.fetch_failed",
                tenant_id=str(caller.tenant),
                remote=route.remote,
                addresses=route.addresses,
                problem=problem.value,
                detail=answer["detail"],
            )
            raise RemoteUnavailable(route.remote, problem)
        return answer["commit"]

    async def _merge(
        self, caller: Caller, scope: Scope, remote: str, branch: str, theirs: str, wanted: m.SyncKnowledge
    ) -> "tuple[dict[str, str], Merge]":
        async with self._db.unit(scope):
            await self._store.lock(scope)
            await self._store.repository(scope)

            def work(shop: "Workshop") -> "tuple[str | None, dict[str, str], Merge]":
                head = shop.repository.find_head()
                before = shop.items(head) if head else {}
                signature = signed(caller, self._clock(), None)
                return head, before, shop.merge(theirs, signature, remote=remote, on_conflict=wanted.on_conflict)

            head, before, merge = await self._repositories.write(scope, work)
            # What was written is taken back with the unit of work where there is no consent.
            if head is not None and merge.head is not None:
                await self._check_consent(caller, Merging(remote, theirs, head, ()), merge.head, wanted.approval_id)
            if not merge.conflicts:
                await self._store.synced(scope, remote, branch, theirs)
        return before, merge

    async def _check_consent(self, caller: Caller, merging: Merging, after: str, approval_id: UUID | None) -> None:
        """Let nobody end a policy by a merge who could not end it otherwise."""
        if self.consent is None or not (ended := await self.consent.find_ended(caller, merging.before, after)):
            return
        if not self._may_connect(caller):
            raise Forbidden(
                "a sync that ends or changes a policy needs the permission accept:knowledge", policies=ended
            )
        await self.consent.check_merge(caller, replace(merging, policies=ended), approval_id)


async def _tell_indexed(done: int, total: int) -> None:
    await report_progress(f"indexed {done} of {total} items", 50 + 50 * done / max(1, total))
