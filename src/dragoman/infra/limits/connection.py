"""Keeps one wire to Valkey open, and says when there is none."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from prometheus_client import Gauge

from dragoman.infra.jobs import Job
from dragoman.infra.limits.wire import ValkeyLostError, ValkeyRefusedError, Wire, open_wire

log = structlog.get_logger(__name__)

# Of living processes only: one that died while Valkey was away would show it as away for ever.
DEGRADED = Gauge(
    "dragoman_limits_degraded", "1 while limits are counted in memory, Valkey being away.", multiprocess_mode="livemax"
)


class Connection:
    """A wire that comes back: `wire` is None while Valkey is away.

    No request ever waits for a connection: a job opens it, at once when it breaks and then every `retry_s`.
    `welcome` has the last word on whether a server that took the connection can be used.
    """

    def __init__(
        self, url: str, *, welcome: Callable[[Wire], Awaitable[None]], timeout_s: float, retry_s: float
    ) -> None:
        self._url = url
        self._welcome = welcome
        self._timeout_s = timeout_s
        self._retry_s = retry_s
        self._degraded = False
        self._open: Wire | None = None

    @property
    def wire(self) -> Wire | None:
        """What to call now, if anything."""
        wire = self._open
        return None if wire is None or wire.lost.done() else wire

    async def start(self) -> None:
        """Try once; the job keeps at it.

        Raises:
            ValueError: the URL is not one of Valkey.
        """
        await self._connect()

    @property
    def job(self) -> Job:
        """Return the job that opens the wire again; a server that breaks it at once is not asked in a tight circle."""
        return Job(name="valkey_connection", work=self._reopen, every_s=self._retry_s)

    async def stop(self) -> None:
        """Close it for good."""
        if self._open is not None:
            wire, self._open = self._open, None
            wire.close()

    async def _reopen(self) -> None:
        """Wait until the wire is lost, if there is one, then open another."""
        if self._open is not None:
            await asyncio.shield(self._open.lost)
            self._open = None
        await self._connect()

    async def _connect(self) -> None:
        try:
            wire = await open_wire(self._url, timeout_s=self._timeout_s)
            try:
                await self._welcome(wire)
            except BaseException:
                wire.close()
                raise
        except (ValkeyLostError, ValkeyRefusedError) as error:
            self._note_away(error)
            return
        self._open = wire
        # At once, and not only when the job looks: it may be resting.
        wire.lost.add_done_callback(lambda lost: self._note_lost(wire, lost))
        DEGRADED.set(0)
        if self._degraded:
            self._degraded = False
            log.warning("limits.restored")

    def _note_lost(self, wire: Wire, lost: "asyncio.Future[Exception | None]") -> None:
        if wire is self._open:
            self._note_away(None if lost.cancelled() else lost.result())

    def _note_away(self, reason: Exception | None) -> None:
        DEGRADED.set(1)
        if not self._degraded:
            self._degraded = True
            log.warning("limits.degraded", reason=str(reason or "the server closed the connection"))
