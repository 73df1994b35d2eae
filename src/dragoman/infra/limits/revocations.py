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
- The load must begin after the cold was seen. Hence no result is reused: those who come while a load runs share the
  next one, which is one load at a time and at most two waits, however many partitions are cold at once.
- If the hash vanishes between load and merge, so does `@born` (or it is born later), and MERGE refuses: load again.

A copy can also be complete and yet miss something, when the writer could not reach Valkey, or when Valkey came back
with an old snapshot or as a lagging replica. So each connection notes the server's time when it opens, and believes
only copies completed after that; a writer that failed deletes the copy as soon as it is connected again; and each
copy lives 300 s and is then built anew. That last bound is what remains if a process is cut off from Valkey alone,
revokes, and never comes back. An entry lifted while Valkey was away stays at most as long: it errs to the safe side.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from dragoman.infra.limits.script import plain

log = structlog.get_logger(__name__)

FOREVER: Final = math.inf


@dataclass(frozen=True, slots=True)
class Revocable:
    """A credential as it was presented: what of it could have been revoked."""

    credential: str
    subject: str
    issued_at: float


@dataclass(frozen=True, slots=True)
class Revocation:
    """What `ref` issued before `not_before` is void; `FOREVER` voids what is issued later too.

    `ref` is `cred:<credential id>`, `user:<subject>` or `tenant`. After `expires_at` (epoch seconds) nothing that it
    voids can still be alive.
    """

    partition: str
    ref: str
    not_before: float
    expires_at: float | None = None


class RevocationSource(Protocol):
    """Where revocations are kept for good."""

    async def load(self) -> Sequence[Revocation]:
        """All that are in force, of all partitions."""
        ...


def refs(credential: Revocable) -> tuple[str, str]:
    """The fields that could void it, beside `tenant`."""
    return plain(f"cred:{credential.credential}"), plain(f"user:{credential.subject}")


class RevocationBook:
    """What this process knows of the source; it decides alone while Valkey is away."""

    def __init__(self, source: RevocationSource, *, clock: Callable[[], float], timeout_s: float = 1.0) -> None:
        self._source = source
        self._clock = clock
        self._timeout_s = timeout_s
        self._known: dict[str, dict[str, float]] = {}
        # Changes of our own while a load runs, which it may not have seen: partition, ref, not_before or None.
        self._changes: list[tuple[str, str, float | None]] = []
        self._running: asyncio.Task[bool] | None = None
        self._next: asyncio.Task[bool] | None = None
        self._loaded_at = self._failed_at = -math.inf

    @property
    def loaded(self) -> bool:
        """Whether the source has ever answered."""
        return self._loaded_at > -math.inf

    async def reload(self) -> bool:
        """Load all, beginning after this call; False (and the last known set stays) when the source fails.

        A source that failed is left alone for a second.
        """
        if 0 <= self._clock() - self._failed_at < 1:
            return False
        if self._next is None:
            self._next = asyncio.create_task(self._load_after(self._running))
        return await asyncio.shield(self._next)

    async def refresh(self) -> None:
        """See to it that what is known is at most a second old, if the source can be read."""
        if not 0 <= self._clock() - self._loaded_at < 1:
            await self.reload()

    def add(self, entry: Revocation) -> None:
        """Know of one before the source is read again."""
        self._change(entry.partition, plain(entry.ref), entry.not_before)

    def discard(self, partition: str, ref: str) -> None:
        """Forget one before the source is read again."""
        self._change(partition, plain(ref), None)

    def of(self, partition: str) -> dict[str, float]:
        """What is in force in a partition, by field."""
        return self._known.get(partition, {})

    def revoked(self, partition: str, credential: Revocable) -> bool:
        """Whether the credential is void, as far as this process knows."""
        known = self._known.get(partition)
        if not known:
            return False
        return any(credential.issued_at < known.get(ref, -math.inf) for ref in ("tenant", *refs(credential)))

    async def close(self) -> None:
        """Stop loading."""
        tasks = [task for task in (self._running, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _load_after(self, running: asyncio.Task[bool] | None) -> bool:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        self._changes.clear()
        began = self._clock()
        try:
            async with asyncio.timeout(self._timeout_s):
                entries = await self._source.load()
        except Exception as error:  # noqa: BLE001  a guard: whatever the source raises, the last known set stays
            self._failed_at = self._clock()
            log.warning("limits.revocations_unread", error=repr(error))
            return False
        self._known = {}
        for entry in entries:
            if entry.expires_at is None or entry.expires_at > began:
                self._set(entry.partition, plain(entry.ref), entry.not_before)
        for partition, ref, not_before in self._changes:
            self._set(partition, ref, not_before)
        self._loaded_at = began
        return True

    def _change(self, partition: str, ref: str, not_before: float | None) -> None:
        self._changes.append((partition, ref, not_before))
        self._set(partition, ref, not_before)
        if self._running is None or self._running.done():
            self._changes.clear()

    def _set(self, partition: str, ref: str, not_before: float | None) -> None:
        known = self._known.setdefault(partition, {})
        if not_before is None:
            known.pop(ref, None)
        else:
            known[ref] = max(not_before, known.get(ref, -math.inf))
