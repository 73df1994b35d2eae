from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limit:
    """So many requests in a window for one who is counted; `name` is shown in headers and metrics.

    Windows are aligned to the clock. A request passes if `previous * (share of it in view) + current + 1` is within
    `quota`. So no window of the clock admits more than `quota`; a span that begins late in one window can see
    up to twice that, less one, since the estimate takes the requests of the window before as evenly spread.
    """

    name: str
    key: str
    quota: int
    window_s: int = 60


# What a verdict names when no limit decided it.
UNLIMITED: Final = Limit("none", "", 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """May this request go on?

    `limit` is the one that refuses longest, else the one with the least share left. After `retry_after_s` one more
    request passes if nobody else uses the quota; after `reset_s` all of it is back. A revoked credential is never
    counted. `degraded`: decided by this process alone, because Valkey is away.
    """

    allowed: bool
    limit: Limit
    remaining: int
    reset_s: int
    retry_after_s: int
    revoked: bool = False
    degraded: bool = False
