"""When a failed attempt is followed by another: one policy for all lanes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dragoman.backoff import jittered
from dragoman.errors import DragomanError, UpstreamUnavailable

# A time that the other side asks for is honoured up to this.
_MAX_RETRY_AFTER_S: Final = 3600.0
# As the errors of our own database name it.
OWN_DATABASE: Final = ("postgresql", "database pool")


class Verdict(StrEnum):
    """What follows from a failure."""

    AGAIN = "again"
    EXHAUSTED = "exhausted"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a task is tried, and how long to back off in between."""

    max_attempts: int = 3
    base_s: float = 1.0
    most_s: float = 60.0

    def judge(self, error: DragomanError | None, *, attempts_left: int, repeatable: bool) -> Verdict:
        """Decide by the class of an error; None is an exception that nobody foresaw.

        Work that is not `repeatable` as a whole, the turn of a conversation, is tried again only when our own database
        was away: everything else is for its sender to decide.
        """
        again = is_database_away(error) or (repeatable and (error is None or error.retryable))
        if not again:
            return Verdict.FINAL
        return Verdict.AGAIN if attempts_left > 0 else Verdict.EXHAUSTED

    def delay_s(self, attempt: int, error: DragomanError | None = None) -> float:
        """Return the backoff: the `Retry-After` of the other side, else twice as long each time up to a bound.

        Jitter spreads the latter, so that tasks which failed together are not retried together.
        """
        asked_s = error.retry_after_s if error is not None and getattr(error, "asked_for", True) else None
        if asked_s is not None and not is_database_away(error):
            return min(max(float(asked_s), 0.0), _MAX_RETRY_AFTER_S)
        return jittered(min(self.base_s * 2 ** min(max(attempt, 1) - 1, 30), self.most_s))


def is_database_away(error: BaseException | None) -> bool:
    """Return whether an error says that our own database does not answer."""
    return isinstance(error, UpstreamUnavailable) and error.details.get("upstream") in OWN_DATABASE
