"""Whether a credential that opened something long is still good: not revoked, and not at its end."""

import time
from collections.abc import Awaitable, Callable
from uuid import UUID

from dragoman.context import Caller
from dragoman.infra.auth.authenticator import Directory

_MOST_KEPT = 10_000


class CredentialEndings:
    """Finds out why a credential is no longer good. The end of a key is looked up: a rotation may set it meanwhile."""

    def __init__(
        self,
        is_revoked: Callable[[Caller], Awaitable[bool]],
        directory: Directory,
        *,
        keep_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._is_revoked = is_revoked
        self._directory = directory
        self._keep_s = keep_s
        self._clock = clock
        # A key may have thousands of streams: by its id, until when its end is known, and the end.
        self._kept: dict[str, tuple[float, float | None]] = {}

    async def find(self, caller: Caller) -> str | None:
        """Return `revoked` or `expired`; None while the credential is good.

        Raises:
            UpstreamUnavailable: that cannot be found out now.
        """
        if await self._is_revoked(caller):
            return "revoked"
        expires_at = await self._end_of_key(caller) if caller.by_key else caller.expires_at
        return "expired" if expires_at is not None and expires_at <= self._clock() else None

    async def _end_of_key(self, caller: Caller) -> float | None:
        now = self._clock()
        kept = self._kept.get(caller.credential)
        if kept is not None and kept[0] > now:
            return kept[1]
        record = await self._directory.find_key(UUID(caller.credential))
        expires_at = record.expires_at if record is not None else now
        if len(self._kept) >= _MOST_KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[caller.credential] = (now + self._keep_s, expires_at)
        return expires_at
