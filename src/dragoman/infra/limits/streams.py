"""Streams that stay open, on every door: how many there may be, and whether their callers are still let in.

A stream has a place as long as it is open: so many for each caller, each tenant and each process, and never more than
half of the files that the process may open, so that a caller with many streams does not keep others from connecting.
Its caller is checked again at least every `check_s`; nothing is told to one whose credential was revoked or expired.
"""

import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final

from dragoman.context import Caller
from dragoman.errors import RateLimited, Unauthenticated
from dragoman.infra.telemetry import Metrics, SecurityEvents

_COME_BACK_S: Final = 5


@dataclass(frozen=True, slots=True)
class StreamCaps:
    """The most streams that one caller, one tenant and all of them together have open in one process."""

    caller: int
    tenant: int
    process: int

    def within_files(self) -> "StreamCaps":
        """Return these caps, lowered to half of the files that this process may open."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        process = self.process if most == resource.RLIM_INFINITY else max(1, min(self.process, most // 2))
        return StreamCaps(self.caller, self.tenant, process)


class OpenStreams:
    """The streams of this process."""

    def __init__(
        self,
        find_ending: Callable[[Caller], Awaitable[str | None]],
        caps: StreamCaps,
        *,
        check_s: float,
        metrics: Metrics,
        security: SecurityEvents,
    ) -> None:
        self._find_ending = find_ending
        self._caps = caps
        # How often streams are to look: then no check is later than `check_s`.
        self.every_s = check_s / 2
        self._metrics = metrics
        self._security = security
        self._open: Counter[tuple[str, ...]] = Counter()

    @contextmanager
    def place(self, caller: Caller) -> Generator[None]:
        """Hold a place for a stream of the caller.

        Raises:
            RateLimited: the caller, its tenant or the process has too many open.
        """
        tenant, caps = str(caller.tenant), self._caps
        places = {(tenant, caller.subject): caps.caller, (tenant,): caps.tenant, (): caps.process}
        for (key, most), name in zip(places.items(), ("caller", "tenant", "process"), strict=True):
            if self._open[key] >= most:
                limit = f"streams-{name}"
                self._metrics.limits.refused(tenant, "streams", limit)
                self._security.limited(limit, retry_after_s=_COME_BACK_S)
                raise RateLimited(limit, retry_after_s=_COME_BACK_S)
        self._open.update(places.keys())
        try:
            yield
        finally:
            self._open.subtract(places.keys())
            for key in [key for key in places if key and not self._open[key]]:
                del self._open[key]

    def watch(self, caller: Caller) -> "CallerWatch":
        """Return what checks a caller again while its stream is open."""
        return CallerWatch(self, caller, self.every_s)

    async def check(self, caller: Caller) -> None:
        """Refuse a caller whose credential was revoked, or has expired, since the stream was opened.

        Raises:
            Unauthenticated: it was, or has.
        """
        if (ending := await self._find_ending(caller)) is not None:
            self._security.rejected_credentials(ending, credential_id=caller.credential)
            raise Unauthenticated(ending)


class CallerWatch:
    """Checks one caller when half of the time is over, if it is asked at least as often: so never later than that."""

    __slots__ = ("_at", "_caller", "_streams", "every_s")

    def __init__(self, streams: OpenStreams, caller: Caller, every_s: float) -> None:
        self._streams = streams
        self._caller = caller
        self.every_s = every_s
        self._at = monotonic()

    async def check(self) -> None:
        """Check the caller if that is due.

        Raises:
            Unauthenticated: its credential was revoked, or has expired.
        """
        if (now := monotonic()) - self._at >= self.every_s:
            self._at = now
            await self._streams.check(self._caller)
