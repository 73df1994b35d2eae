"""What was revoked, from the truth in PostgreSQL, so that a Valkey that forgets does not let anybody back in.

Valkey holds a copy for each partition, one hash, which CHECK reads in the same call as the limits:

    <ref> -> not_before      `cred:<id>`, `user:<subject>` or `tenant`
    @born                    since when this hash has existed without a break (server time, microseconds)
    @complete                all that was true at this moment is in it

The marks are fields of the hash itself. A restart, FLUSHALL, eviction or expiry therefore takes them together with the
entries: nothing can lose an entry and still look complete, and no second key (in another slot) is asked.

Without `@complete` a partition is cold. The first request to see that notes `@born` and the server's time, loads from
the source, and merges with MERGE. Why no revocation slips through between:

- It is committed in PostgreSQL first and written to Valkey second. Committed before the load began, it is in the load.
  Committed later, it is written to the hash later, before or after the merge, and the merge only adds or raises.
- The load must begin after the cold was seen. Hence no result is reused: those who come while a load of the partition
  runs share the next one, which is one load of it at a time and at most two waits.
- If the hash vanishes between load and merge, so does `@born` (or it is born later), and MERGE refuses: load again.

A tenant with very many entries delays nobody else: loads are by partition, page by page, few at once, and its entries
reach Valkey in small merges, of which the last sets `@complete`.

A copy can also be complete and yet miss something, when the writer could not reach Valkey, or when Valkey came back
with an old snapshot or as a lagging replica. So each connection notes the server's time when it opens, and believes
only copies completed after that; a writer that failed deletes the copy as soon as it is connected again; and each
copy lives 300 s and is then built anew. That last bound is what remains if a process is cut off from Valkey alone,
revokes, and never comes back. An entry lifted while Valkey was away stays at most as long: it errs to the safe side.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from dragoman.infra.limits.script import plain

log = structlog.get_logger(__name__)

FOREVER: Final = math.inf
# Before the refs of what super_admins hold, so that nobody below them can shut them out.
PLATFORM: Final = "super:"
_LOADS_AT_ONCE: Final = 4
_MOST_PARTITIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Revocable:
    """A credential as it was presented: what of it could have been revoked.

    `platform` is for a token of a super_admin, which only entries of super_admins void.
    """

    credential: str
    subject: str
    issued_at: float
    platform: bool = False


@dataclass(frozen=True, slots=True)
class Revocation:
    """What `ref` issued before `not_before` is void; `FOREVER` voids what is issued later too.

    `ref` is `cred:<credential id>`, `user:<subject>` or `tenant`; the first two also with `super:` before them.
    """

    partition: str
    ref: str
    not_before: float


class RevocationSource(Protocol):
    """Where revocations are kept for good."""

    def load(self, partition: str) -> AsyncIterator[Sequence[Revocation]]:
        """All that are in force in a partition, page by page."""
        ...


def refs(credential: Revocable) -> tuple[str, str]:
    """The fields that could void it, beside `tenant`."""
    prefix = PLATFORM if credential.platform else ""
    return plain(f"{prefix}cred:{credential.credential}"), plain(f"{prefix}user:{credential.subject}")


@dataclass(slots=True)
class _Known:
    """What is known of a partition."""

    entries: dict[str, float] = field(default_factory=dict[str, float])
    # Changes of our own while a load runs, which it may not have seen: ref, not_before or None.
    changes: list[tuple[str, float | None]] = field(default_factory=list[tuple[str, float | None]])
    running: asyncio.Task[bool] | None = None
    next: asyncio.Task[bool] | None = None
    loaded_at: float = -math.inf
    took_s: float = 0.0

    def set(self, ref: str, not_before: float | None) -> None:
        """Take over one entry."""
        if not_before is None:
            self.entries.pop(ref, None)
        else:
            self.entries[ref] = max(not_before, self.entries.get(ref, -math.inf))


class RevocationBook:
    """What this process knows of the source, partition by partition; it decides alone while Valkey is away."""

    def __init__(self, source: RevocationSource, *, clock: Callable[[], float], timeout_s: float = 5.0) -> None:
        self._source = source
        self._clock = clock
        self._timeout_s = timeout_s
        self._known: dict[str, _Known] = {}
        self._loads = asyncio.Semaphore(_LOADS_AT_ONCE)
        self._failed_at = -math.inf

    def loaded(self, partition: str) -> bool:
        """Whether the source has ever answered for this partition."""
        return (known := self._known.get(partition)) is not None and known.loaded_at > -math.inf

    async def reload(self, partition: str) -> bool:
        """Load a partition, beginning after this call; False (and what was known stays) when the source fails.

        A source that failed is left alone for a second.
        """
        if self._is_resting():
            return False
        known = self._of(partition)
        if known.next is None:
            known.next = asyncio.create_task(self._load_after(known.running, partition, known))
        return await asyncio.shield(known.next)

    async def refresh(self, partition: str) -> None:
        """See to it that what is known is at most a second old, or ten times as old as its load takes."""
        known = self._of(partition)
        if not 0 <= self._clock() - known.loaded_at < max(1, 10 * known.took_s):
            await self.reload(partition)

    def add(self, entry: Revocation) -> None:
        """Know of one before the source is read again."""
        self._change(entry.partition, plain(entry.ref), entry.not_before)

    def discard(self, partition: str, ref: str) -> None:
        """Forget one before the source is read again."""
        self._change(partition, plain(ref), None)

    def of(self, partition: str) -> dict[str, float]:
        """What is in force in a partition, by field."""
        return known.entries if (known := self._known.get(partition)) is not None else {}

    def revoked(self, partition: str, credential: Revocable) -> bool:
        """Whether the credential is void, as far as this process knows."""
        if not (entries := self.of(partition)):
            return False
        return any(credential.issued_at < entries.get(ref, -math.inf) for ref in ("tenant", *refs(credential)))

    async def close(self) -> None:
        """Stop loading."""
        tasks = [task for known in self._known.values() for task in (known.running, known.next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, partition: str) -> _Known:
        known = self._known.get(partition)
        if known is None:
            if len(self._known) >= _MOST_PARTITIONS:
                self._drop_oldest()
            known = self._known[partition] = _Known()
        return known

    def _drop_oldest(self) -> None:
        """Forget the partition that was loaded longest ago; it is loaded again when it is asked for."""
        idle = [name for name, known in self._known.items() if known.running is None and known.next is None]
        if idle:
            del self._known[min(idle, key=lambda name: self._known[name].loaded_at)]

    def _is_resting(self) -> bool:
        return 0 <= self._clock() - self._failed_at < 1

    async def _load_after(self, running: asyncio.Task[bool] | None, partition: str, known: _Known) -> bool:
        if running is not None:
            await asyncio.wait([running])
        known.running, known.next = known.next, None
        try:
            async with self._loads:
                return await self._load(partition, known)
        finally:
            if known.running is asyncio.current_task():
                known.running = None

    async def _load(self, partition: str, known: _Known) -> bool:
        if self._is_resting():
            return False
        known.changes.clear()
        began = self._clock()
        fresh = _Known()
        try:
            pages = aiter(self._source.load(partition))
            while True:
                async with asyncio.timeout(self._timeout_s):
                    page = await anext(pages, None)
                if page is None:
                    break
                for entry in page:
                    fresh.set(plain(entry.ref), entry.not_before)
        except Exception as error:  # noqa: BLE001  a guard: whatever the source raises, the last known set stays
            self._failed_at = self._clock()
            log.warning("limits.revocations_unread", error=repr(error))
            return False
        known.entries = fresh.entries
        for ref, not_before in known.changes:
            known.set(ref, not_before)
        known.loaded_at, known.took_s = began, self._clock() - began
        return True

    def _change(self, partition: str, ref: str, not_before: float | None) -> None:
        known = self._of(partition)
        if known.running is not None:
            known.changes.append((ref, not_before))
        known.set(ref, not_before)
