"""What a scrape of the metrics gets: rendered beside the event loop, one at a time, for all who wait."""

import asyncio
import hmac
from collections.abc import Callable

from dragoman.blocking import Threads
from dragoman.errors import Unauthenticated

Rendered = tuple[bytes, str]


class Scrapes:
    """Renders in a thread that nothing else uses; those who come while it renders share the next result."""

    def __init__(self, render: Callable[[], Rendered], *, token: str | None = None) -> None:
        self._render = render
        self._authorization = f"Bearer {token}".encode() if token is not None else None
        self._threads = Threads("telemetry", 1)
        self._running = asyncio.Lock()
        self._begun = 0
        self._last: tuple[int, Rendered] | None = None

    async def get(self, authorization: bytes) -> Rendered:
        """Return the body and its content type, as they were at the time of this call or later.

        Raises:
            Unauthenticated: a token is required, and the header `Authorization` does not carry it.
        """
        if self._authorization is not None and not hmac.compare_digest(authorization, self._authorization):
            raise Unauthenticated("metrics token", presented=bool(authorization))
        begun = self._begun
        async with self._running:
            if self._last is None or self._last[0] <= begun:
                self._begun += 1
                self._last = (self._begun, await self._threads.run(None, self._render))
            return self._last[1]
