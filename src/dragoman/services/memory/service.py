"""Rules of memories: where they go, who may change them, what a correction leaves behind."""

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from dragoman.context import Caller, current_request, current_task
from dragoman.errors import InvalidInput, NotFound
from dragoman.infra.db import Database, scope_of
from dragoman.operations import Page, page
from dragoman.services.memory.errors import AmbiguousMemory, ContentExists
from dragoman.services.memory.filters import compile_filters
from dragoman.services.memory.layers import Ids, Layer, Place, may_access, place_of, places_of
from dragoman.services.memory.models import (
    AddedMemories,
    AddedMemory,
    AddMemories,
    AddMemory,
    ChangedMemory,
    ForgottenMemory,
    ListMemories,
    Memory,
    MemoryHistory,
    MemoryRef,
    SearchMemories,
    Source,
    SourceType,
    UpdateMemory,
)
from dragoman.services.memory.search import MemorySearch
from dragoman.services.memory.store import MemoryStore

# A description must fit this well to be taken for a memory, and by so much better than the next to be unmistakable.
_FITS, _CLEARLY = 0.3, 0.15
_MOST_CANDIDATES = 5
_BLANKS = re.compile(r"\s+")


def content_sha(content: str) -> str:
    """The same for texts that differ in case and spacing alone."""
    return hashlib.sha256(_BLANKS.sub(" ", content.strip()).casefold().encode()).hexdigest()


# A row of the table, as `_row` makes it.
PlannedMemory = dict[str, Any]


class MemoryService:
    """Keeps memories: corrects by adding a version, forgets by removing all of them."""

    def __init__(
        self,
        store: MemoryStore,
        search: MemorySearch,
        db: Database,
        *,
        new_id: Callable[[], UUID],
        wake: Callable[[], None],
        has_vectors: Callable[[], bool],
    ) -> None:
        self._store = store
        self._search = search
        self._db = db
        self._new_id = new_id
        self._wake = wake
        self._has_vectors = has_vectors

    async def add(self, caller: Caller, new: AddMemory) -> AddedMemory:
        """Remember one; raises what `plan` raises."""
        (added,) = await self.add_planned(caller, [self.plan(caller, new)])
        return added

    def plan(self, caller: Caller, new: AddMemory) -> PlannedMemory:
        """Return what is to be remembered, where and from whom; `add_planned` writes it.

        Raises:
            InvalidInput: the layer lacks its id.
            NotYourMemories: the layer is another user's.
        """
        return self._row(caller, new)

    async def add_planned(self, caller: Caller, planned: Sequence[PlannedMemory]) -> Sequence[AddedMemory]:
        """Remember memories of several callers of a tenant; what a layer has already is merged into what is there."""
        added: list[AddedMemory | None] = [None] * len(planned)
        left = list(enumerate(planned))
        while left:
            # A statement changes a memory only once: the same words again are merged by the next statement.
            now = dict[tuple[str, str], tuple[int, PlannedMemory]]()
            later = list[tuple[int, PlannedMemory]]()
            for place, row in left:
                if now.setdefault((row["scope"], row["sha"]), (place, row))[0] != place:
                    later.append((place, row))
            ids = await self._store.add(scope_of(caller), [row for _, row in now.values()])
            for key, (place, _) in now.items():
                memory_id, fresh = ids[key]
                added[place] = AddedMemory(memory_id=memory_id, deduplicated=not fresh)
            left = later
        await self._db.after_commit(self._after)
        return [memory for memory in added if memory is not None]

    async def add_many(self, caller: Caller, new: AddMemories) -> AddedMemories:
        """Remember all of them or none."""
        kept = await self.keep(caller, new.memories)
        fresh = sum(is_new for _, is_new in kept)
        return AddedMemories(
            memory_ids=[memory_id for memory_id, _ in kept], added=fresh, deduplicated=len(kept) - fresh
        )

    async def keep(self, caller: Caller, new: Sequence[AddMemory]) -> list[tuple[UUID, bool]]:
        """The id of each, and whether it is new; in their order, in one transaction."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        keys: list[tuple[str, str]] = []
        for memory in new:
            row = self._row(caller, memory)
            key = (row["scope"], row["sha"])
            keys.append(key)
            rows.setdefault(key, row)
        added = await self._store.add(scope_of(caller), list(rows.values()))
        await self._db.after_commit(self._after)
        seen: set[tuple[str, str]] = set()
        kept: list[tuple[UUID, bool]] = []
        for key in keys:
            memory_id, fresh = added[key]
            kept.append((memory_id, fresh and key not in seen))
            seen.add(key)
        return kept

    async def get(self, caller: Caller, ref: MemoryRef) -> Memory:
        """The version that holds.

        Raises:
            NotFound: there is none, or it is another tenant's or another user's.
        """
        return Memory.model_validate(await self._own(caller, ref.memory_id))

    async def list(self, caller: Caller, wanted: ListMemories) -> Page[Memory]:
        """Newest first."""
        scopes = [place.scope for place in places_of(caller, wanted.layers, wanted.ids)]
        held = (wanted.as_of, list(wanted.tags) if wanted.tags else None, compile_filters(wanted.filters))
        rows = await self._store.list(scope_of(caller), scopes, held, before=wanted.cursor, limit=wanted.limit + 1)
        return page([Memory.model_validate(row) for row in rows], wanted.limit)

    async def history(self, caller: Caller, ref: MemoryRef) -> MemoryHistory:
        """Every version, oldest first.

        Raises:
            NotFound: there is none, or it is another tenant's or another user's.
        """
        rows = await self._store.history(scope_of(caller), ref.memory_id)
        if not rows or not may_access(caller, rows[-1]["user_id"]):
            raise NotFound("memory", ref.memory_id)
        return MemoryHistory(memory_id=ref.memory_id, versions=[Memory.model_validate(row) for row in rows])

    async def identify(self, caller: Caller, change: UpdateMemory) -> UpdateMemory:
        """The same correction by id, where a description was given; a search is no work for a transaction.

        Raises:
            InvalidInput: both or neither are given, or nothing to change.
            NotFound: no memory fits the description.
            AmbiguousMemory: it fits several; the error lists them.
        """
        _check_change(change)
        if change.memory_id is not None:
            return change
        return change.model_copy(update={"memory_id": await self._described(caller, change), "query": None})

    async def update(self, caller: Caller, change: UpdateMemory) -> ChangedMemory:
        """Begin a new version; the old one ends with it and stays in the history.

        Raises:
            NotFound: no memory has the id.
            ContentExists: another memory of the layer says the same already.
        """
        if (memory_id := change.memory_id) is None:
            raise InvalidInput.of("memory_id", "is needed")
        old = await self._own(caller, memory_id)
        content = change.content if change.content is not None else old["content"]
        sha = bytes.fromhex(content_sha(content))
        if (other := await self._store.find_same(scope_of(caller), memory_id, sha)) is not None:
            raise ContentExists(str(other))
        version = await self._store.replace(
            scope_of(caller),
            memory_id,
            content,
            sha,
            change.tags if change.tags is not None else old["tags"],
            change.metadata if change.metadata is not None else old["metadata"],
            change.importance if change.importance is not None else old["importance"],
            _source(caller, SourceType.MANUAL, None),
            change.expires_at if "expires_at" in change.model_fields_set else old["expires_at"],
        )
        if version is None:
            raise NotFound("memory", memory_id)
        await self._db.after_commit(self._after)
        return ChangedMemory(memory_id=memory_id, version=version)

    async def delete(self, caller: Caller, ref: MemoryRef) -> ForgottenMemory:
        """Remove it with all its versions.

        Raises:
            NotFound: there is none, or it is another tenant's or another user's.
        """
        rows = await self._store.history(scope_of(caller), ref.memory_id)
        if not rows or not may_access(caller, rows[-1]["user_id"]):
            raise NotFound("memory", ref.memory_id)
        await self._store.forget(scope_of(caller), ref.memory_id, vectors=self._has_vectors())
        return ForgottenMemory(memory_id=ref.memory_id)

    async def _after(self) -> None:
        self._wake()

    async def _own(self, caller: Caller, memory_id: UUID) -> dict[str, Any]:
        row = await self._store.find(scope_of(caller), memory_id)
        if row is None or not may_access(caller, row["user_id"]):
            raise NotFound("memory", memory_id)
        return row

    async def _described(self, caller: Caller, change: UpdateMemory) -> UUID:
        asked = {"query": change.query, "layers": change.layers, "ids": change.ids}
        wanted = SearchMemories.model_validate({**asked, "limit": _MOST_CANDIDATES, "threshold": _FITS})
        hits = (await self._search.search(caller, wanted)).results
        if not hits:
            raise NotFound("memory", (change.query or "")[:200])
        best = max(hit.score for hit in hits)
        near = [hit for hit in hits if best - hit.score < _CLEARLY]
        if len(near) > 1:
            raise AmbiguousMemory(
                [
                    {
                        "memory_id": str(hit.memory_id),
                        "content": hit.content,
                        "layer": hit.layer.value,
                        "score": hit.score,
                    }
                    for hit in near
                ]
            )
        return near[0].memory_id

    def _row(self, caller: Caller, new: AddMemory) -> dict[str, Any]:
        place = place_of(caller, new.layer, new.ids)
        if new.turn is not None and new.layer is not Layer.SESSION:
            raise InvalidInput.of("turn", "belongs to the layer session")
        now = datetime.now(UTC)
        if new.expires_at is not None and new.expires_at <= now:
            raise InvalidInput.of("expires_at", "is over already")
        return {
            "id": str(self._new_id()),
            "layer": place.layer.value,
            "scope": place.scope,
            "user_id": place.user_id,
            "ids": _told(place, new.ids),
            "content": new.content,
            "sha": content_sha(new.content),
            "tags": sorted(set(new.tags)),
            "metadata": new.metadata,
            "importance": new.importance,
            "turn": new.turn,
            "source": _source(caller, new.source_type, new.task_id),
            "valid_from": new.valid_from.isoformat() if new.valid_from else None,
            "expires_at": new.expires_at.isoformat() if new.expires_at else None,
        }


def _told(place: Place, ids: Ids) -> dict[str, str]:
    """Whose it is; of a conversation also what it was about, which says where it may be promoted to."""
    if place.layer is Layer.SESSION and ids.project_id is not None:
        return place.ids | {"project_id": ids.project_id}
    return place.ids


def _source(caller: Caller, kind: SourceType, task_id: str | None) -> dict[str, Any]:
    request = current_request()
    source = Source(
        type=kind,
        by=caller.subject,
        task_id=task_id or current_task(),
        request_id=request.id if request else None,
        door=request.door if request else None,
    )
    return source.model_dump(mode="json", exclude_none=True)


def _check_change(change: UpdateMemory) -> None:
    if (change.memory_id is None) == (change.query is None):
        raise InvalidInput.of("memory_id", "give either memory_id or query")
    changes = ("content", "tags", "metadata", "importance")
    if all(getattr(change, name) is None for name in changes) and "expires_at" not in change.model_fields_set:
        raise InvalidInput.of("content", "say what to change")
    if change.expires_at is not None and change.expires_at <= datetime.now(UTC):
        raise InvalidInput.of("expires_at", "is over already")
