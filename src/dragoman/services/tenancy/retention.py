"""The job that removes what can answer and void nothing any more: old idempotency keys, revocations of dead tokens."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from dragoman.infra.jobs import Job
from dragoman.services.tenancy.store_retention import RetentionStore

_LOG = structlog.get_logger(__name__)


class Retention:
    """Every process has one; they take turns, batch by batch, and a batch that is interrupted is done again."""

    def __init__(self, store: RetentionStore, *, every_s: float, keep_keys: timedelta, keep_tokens: timedelta) -> None:
        self._store = store
        self._every_s = every_s
        self._keep_keys = keep_keys
        self._keep_tokens = keep_tokens

    @property
    def job(self) -> Job:
        """Return the job that cleans up now and then."""
        return Job(name="retention", work=self.clean, every_s=self._every_s)

    async def clean(self) -> None:
        """Remove all that is due."""
        keys = await _all(lambda: self._store.remove_keys(after=self._keep_keys))
        revocations = await _all(lambda: self._store.remove_revocations(after=self._keep_tokens))
        if keys or revocations:
            _LOG.info("retention.done", idempotency_keys=keys, revocations=revocations)


async def _all(remove: Callable[[], Awaitable[int]]) -> int:
    total = 0
    while removed := await remove():
        total += removed
    return total
