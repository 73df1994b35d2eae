"""The same limits, counted by this process alone while Valkey is away: the twin of CHECK in `script.py`."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from dragoman.infra.limits.script import Outcome, Reply, limit_keys
from dragoman.infra.limits.verdict import Limit


class MemoryLimits:
    """Sliding-window counters in a table of bounded size; the least recently counted go first.

    Each of `share` processes grants its part of a quota, and at least one request.
    """

    def __init__(self, *, clock: Callable[[], float], share: int = 1, max_keys: int = 100_000) -> None:
        self._clock = clock
        self._share = share
        self._max_keys = max_keys
        self._counters: OrderedDict[str, tuple[int, int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counters)

    def check(self, partition: str, limits: Sequence[Limit]) -> Reply:
        """Count the request on all limits, or on none; the reply is what CHECK gives."""
        now = int(self._clock() * 1_000_000)
        keys = limit_keys(partition, limits)
        counters: list[tuple[int, int, int]] = []
        worst, worst_share, remaining, reset_us, retry_s = 0, 2.0, 0, 0, 0
        for place, (key, limit) in enumerate(zip(keys, limits, strict=True), start=1):
            quota = self._part(limit.quota)
            window = limit.window_s * 1_000_000
            n, elapsed = divmod(now, window)
            current, previous = self._counts(key, n)
            counters.append((n, current + 1, previous))
            free = (quota - current) * window - previous * (window - elapsed)
            if free < window:
                wait_s = _wait_s(quota, window, elapsed, current, previous)
                if wait_s > retry_s:
                    worst, remaining, retry_s = place, 0, wait_s
                    reset_us = (2 if current else 1) * window - elapsed
            elif not retry_s and (left := free // window - 1) / quota < worst_share:
                worst, worst_share, remaining, reset_us = place, left / quota, left, 2 * window - elapsed
        if retry_s:
            return Outcome.REFUSED, worst, remaining, _seconds(reset_us), retry_s
        self._keep(keys, counters)
        return Outcome.ALLOWED, worst, remaining, _seconds(reset_us), 0

    def _part(self, quota: int) -> int:
        return max(1, quota // self._share) if quota > 0 else 0

    def _counts(self, key: str, n: int) -> tuple[int, int]:
        kept_n, current, previous = self._counters.get(key, (-1, 0, 0))
        if kept_n >= n:
            return current, previous
        return 0, current if kept_n == n - 1 else 0

    def _keep(self, keys: Sequence[str], counters: Sequence[tuple[int, int, int]]) -> None:
        table = self._counters
        for key, counter in zip(keys, counters, strict=True):
            table[key] = counter
            table.move_to_end(key)
        while len(table) > self._max_keys:
            table.popitem(last=False)


def _wait_s(quota: int, window: int, elapsed: int, current: int, previous: int) -> int:
    """Until the estimate has room for one: in this window if the current count leaves any, else in the next."""
    if quota > current:
        wait = window - elapsed - (quota - current - 1) * window // previous
    elif quota > 0:
        wait = 2 * window - elapsed - (quota - 1) * window // current
    else:
        wait = window
    return max(1, _seconds(wait))


def _seconds(microseconds: int) -> int:
    return -(-microseconds // 1_000_000)
