"""How long another server asks us to wait before the next attempt."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

# A server that asks for more is asked again after this: an attempt costs little, a task that never ends costs more.
LONGEST_S: Final = 3600


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


def _bounded(seconds: float) -> int | None:
    return math.ceil(min(max(seconds, 0), LONGEST_S)) if math.isfinite(seconds) else None
