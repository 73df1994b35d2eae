"""How long to wait before the next attempt: as long as the other side asks for, else a time that differs for each."""

import math
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

# A server that asks for more is asked again after this: an attempt costs little, a task that never ends costs more.
LONGEST_S: Final = 3600
# A generator of its own: the global one belongs to the program around us, which may seed it and watch it.
_RANDOM: Final = random.Random()  # noqa: S311 - spreads load, hides nothing


def read_retry_after(value: object, *, now: datetime | None = None) -> int | None:
    """Return the whole seconds of a `Retry-After`, at most an hour; None when it says neither seconds nor a date.

    A date of the past is 0. Seconds may be a number too, as errors in JSON have them.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _bounded(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return _bounded(int(text[:9]))
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return _bounded((at - (now or datetime.now(UTC))).total_seconds())


def jittered(longest_s: float) -> float:
    """Return between half and all of a wait, so that those who failed together do not come back together."""
    return longest_s * _RANDOM.uniform(0.5, 1.0)


def _bounded(seconds: float) -> int | None:
    return math.ceil(min(max(seconds, 0), LONGEST_S)) if math.isfinite(seconds) else None
