"""One call to Valkey per request: all its limits, all or nothing, and whether its credential was revoked.

    check ──> wire ──> CHECK in Valkey ──┬─ allowed, refused, revoked
                │                        └─ cold: load from the source, MERGE, ask again   (see `revocations`)
                └─ away, hung, refusing ──> the same limits in memory, revocations by the last known set

A request never waits for a Valkey that is known to be away: a task of the connection opens it again, and believes the
server only after a CHECK of its own was counted there (a replica or a full server answers PING, too).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import Counter

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.jobs import Job
from dragoman.infra.limits.connection import Connection
from dragoman.infra.limits.memory import MemoryLimits
from dragoman.infra.limits.revocations import Revocable, Revocation, RevocationBook, RevocationSource, refs
from dragoman.infra.limits.script import CHECK, MERGE, READMIT, Outcome, Reply, limit_keys, plain, revoked_key
from dragoman.infra.limits.verdict import UNLIMITED, Limit, Verdict
from dragoman.infra.limits.wire import Part, ScriptCall, ValkeyLostError, ValkeyRefusedError, Wire

CHECKS = Counter("dragoman_limit_checks", "Requests checked, by the limit that was tightest.", ["limit", "outcome"])

_PROBE: Final = (Limit("probe", "", 1_000_000, window_s=1),)
_COLD_TRIES: Final = 3
# What FOREVER is on the wire: Lua's tonumber need not read 'inf'.
_ALWAYS: Final = 1e300
_MOST_PREPARED: Final = 10_000
_MOST_MERGED: Final = 1_000


class Limiter:
    """Says whether a request may go on; shared by every request of a process.

    `share` is the number of processes: in memory, each grants that part of a quota.
    """

    def __init__(
        self,
        redis_url: str,
        *,
        revocations: RevocationSource,
        clock: Callable[[], float] = time.time,
        timeout_s: float = 0.05,
        retry_s: float = 1.0,
        share: int = 1,
    ) -> None:
        self._book = RevocationBook(revocations, clock=clock)
        self._memory = MemoryLimits(clock=clock, share=share)
        self._valkey = Connection(redis_url, welcome=self._welcome, timeout_s=timeout_s, retry_s=retry_s)
        self._complete_after_us = 0
        self._untold: set[str] = set()
        self._warming: dict[str, asyncio.Task[bool]] = {}
        self._counts: dict[tuple[str, int], Callable[[], None]] = {}
        # With the limits, which are then not freed: else others could come to stand at the same place in memory.
        self._prepared: dict[tuple[object, ...], tuple[Sequence[Limit], ScriptCall]] = {}

    @property
    def degraded(self) -> bool:
        """Whether limits are counted in memory now."""
        return self._valkey.wire is None

    @property
    def job(self) -> Job:
        """Return the job that keeps the connection to Valkey open."""
        return self._valkey.job

    async def start(self) -> None:
        """Connect, or begin without Valkey: neither it nor the source need answer for this to return.

        Raises:
            ValueError: the URL is not one of Valkey.
        """
        await self._valkey.start()

    async def stop(self) -> None:
        """Close the connection; what is checked after this is decided in memory."""
        await self._valkey.stop()
        await asyncio.gather(*self._warming.values(), return_exceptions=True)
        await self._book.close()

    async def ping(self) -> float:
        """The seconds that Valkey takes to answer.

        Raises:
            UpstreamUnavailable: it does not.
        """
        started = time.perf_counter()
        await self.call("PING")
        return time.perf_counter() - started

    async def call(self, *parts: Part) -> Any:
        """What Valkey answers to a command: for others who keep something there, over the wire that is open.

        Raises:
            UpstreamUnavailable: it does not answer, or refuses.
        """
        wire = self._valkey.wire
        if wire is None:
            raise UpstreamUnavailable("valkey")
        try:
            return await wire.call(*parts)
        except (ValkeyLostError, ValkeyRefusedError) as error:
            raise UpstreamUnavailable("valkey") from error

    async def check(self, partition: str, limits: Sequence[Limit], credential: Revocable | None = None) -> Verdict:
        """Count one request on all `limits`, or on none of them if one refuses or the credential is revoked.

        Raises:
            UpstreamUnavailable: revocations were never read, neither from Valkey nor from the source.
        """
        reply = await self._ask(partition, limits, credential)
        away = reply is None
        if reply is None:
            if credential is not None:
                await self._book.refresh(partition)
            reply = self._decide(partition, limits, credential)
        return self._verdict(reply, limits, degraded=away)

    async def revoke(self, entry: Revocation) -> None:
        """Tell every process at once; call it when the entry is committed in the source, never before.

        If Valkey is away this process knows at once, the others when they read the source.
        """
        self._book.add(entry)
        await self._tell(
            entry.partition, lambda wire: _merge(wire, entry.partition, {plain(entry.ref): entry.not_before})
        )

    async def readmit(self, entry: Revocation) -> None:
        """Replace a revocation by an earlier one, with no moment in between in which there is none."""
        self._book.discard(entry.partition, entry.ref)
        self._book.add(entry)
        keys, args = (revoked_key(entry.partition),), (plain(entry.ref), repr(entry.not_before))
        await self._tell(entry.partition, lambda wire: wire.run(ScriptCall(READMIT, keys, args)))

    async def unrevoke(self, partition: str, ref: str) -> None:
        """Lift a revocation; call it when that is committed in the source."""
        self._book.discard(partition, ref)
        await self._tell(partition, lambda wire: wire.call("HDEL", revoked_key(partition), plain(ref)))

    async def _ask(self, partition: str, limits: Sequence[Limit], credential: Revocable | None) -> Reply | None:
        """The reply of Valkey; None when it is away."""
        wire = self._valkey.wire
        if wire is None:
            return None
        try:
            for _ in range(_COLD_TRIES):
                reply = await self._run_check(wire, partition, limits, credential)
                if reply[0] != Outcome.COLD:
                    return reply
                if not await self._warm(wire, partition, reply[1] * 1_000_000 + reply[2]):
                    break
            # The copy cannot be completed (the source is away): count in Valkey, and go by what this process knows.
            if self._revoked(partition, credential):
                return (Outcome.REVOKED,)
            return await self._run_check(wire, partition, limits, None)
        except ValkeyLostError:
            return None
        except ValkeyRefusedError as error:
            wire.close(error)
            return None

    async def _run_check(
        self, wire: Wire, partition: str, limits: Sequence[Limit], credential: Revocable | None
    ) -> Reply:
        if credential is None:
            return await wire.run(self._prepare(partition, limits, None))
        who = (credential.credential, credential.subject, credential.issued_at)
        asked = (id(limits), partition, self._complete_after_us, *who)
        prepared = self._prepared.get(asked)
        if prepared is None:
            if len(self._prepared) >= _MOST_PREPARED:
                self._prepared.pop(next(iter(self._prepared)))
            prepared = self._prepared[asked] = (limits, self._prepare(partition, limits, credential))
        return await wire.run(prepared[1])

    def _prepare(self, partition: str, limits: Sequence[Limit], credential: Revocable | None) -> ScriptCall:
        args: list[Part] = ["", "", "", ""]
        if credential is not None:
            args = [repr(credential.issued_at), self._complete_after_us, *refs(credential)]
        for limit in limits:
            args += (limit.quota, limit.window_s * 1_000_000)
        return ScriptCall(CHECK, (revoked_key(partition), *limit_keys(partition, limits)), args)

    def _decide(self, partition: str, limits: Sequence[Limit], credential: Revocable | None) -> Reply:
        if self._revoked(partition, credential):
            return (Outcome.REVOKED,)
        return self._memory.check(partition, limits)

    def _revoked(self, partition: str, credential: Revocable | None) -> bool:
        if credential is None:
            return False
        if not self._book.loaded(partition):
            raise UpstreamUnavailable("the list of revocations")
        return self._book.revoked(partition, credential)

    def _verdict(self, reply: Reply, limits: Sequence[Limit], *, degraded: bool) -> Verdict:
        outcome = reply[0]
        revoked = outcome == Outcome.REVOKED
        if revoked or reply[1] == 0:
            limit, remaining, reset_s, retry_after_s = UNLIMITED, 0, 0, 0
        else:
            limit, remaining, reset_s, retry_after_s = limits[reply[1] - 1], reply[2], reply[3], reply[4]
        count = self._counts.get((limit.name, outcome))
        if count is None:
            # labels() costs more than the increment itself.
            count = CHECKS.labels(plain(limit.name), Outcome(outcome).name.lower()).inc
            self._counts[limit.name, outcome] = count
        count()
        return Verdict(outcome == Outcome.ALLOWED, limit, remaining, reset_s, retry_after_s, revoked, degraded)

    async def _warm(self, wire: Wire, partition: str, seen_us: int) -> bool:
        """Complete the partition's copy; all requests that find it cold wait for the same load."""
        task = self._warming.get(partition)
        if task is None:
            task = self._warming[partition] = asyncio.create_task(self._fill(wire, partition, seen_us))
            task.add_done_callback(lambda _: self._warming.pop(partition, None))
        return await asyncio.shield(task)

    async def _fill(self, wire: Wire, partition: str, seen_us: int) -> bool:
        if not await self._book.reload(partition):
            return False
        await _merge(wire, partition, self._book.of(partition), complete_since_us=seen_us)
        return True

    async def _tell(self, partition: str, send: Callable[[Wire], Awaitable[Any]]) -> None:
        wire = self._valkey.wire
        if wire is None:
            self._untold.add(partition)
            return
        try:
            await send(wire)
        except (ValkeyLostError, ValkeyRefusedError) as error:
            self._untold.add(partition)
            wire.close(error)

    async def _welcome(self, wire: Wire) -> None:
        """Believe no copy from before this moment, drop those that missed a change of ours, and try a real check."""
        seconds, microseconds = await wire.call("TIME")
        untold = frozenset(self._untold)
        for partition in untold:
            await wire.call("DEL", revoked_key(partition))
        await self._run_check(wire, "probe", _PROBE, None)
        self._untold -= untold
        self._complete_after_us = int(seconds) * 1_000_000 + int(microseconds)


async def _merge(
    wire: Wire, partition: str, entries: Mapping[str, float], *, complete_since_us: int | None = None
) -> None:
    key, every = [revoked_key(partition)], list(entries.items())
    # Valkey serves nobody else while it runs a script, so that many entries go in several.
    for first in range(0, max(1, len(every)), _MOST_MERGED):
        last = first + _MOST_MERGED >= len(every)
        args: list[Part] = [complete_since_us if last and complete_since_us is not None else ""]
        for field, not_before in every[first : first + _MOST_MERGED]:
            args += (field, repr(min(not_before, _ALWAYS)))
        await wire.run(ScriptCall(MERGE, key, args))
