"""Why a question that is well-formed is not answered."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import groupby
from typing import Any, Final

from dragoman.errors import FieldError, InvalidInput

_NARROW: Final = (
    "set start_date and end_date to a shorter time, filter by account, or group by provider, service or region in "
    "place of resources and several tags"
)
_MOST_SHOWN: Final = 10


class QueryTooCostly(InvalidInput):
    """The query would read too much, or took too long."""

    def __init__(self, *, rows: int | None, most_rows: int, after_s: float | None = None) -> None:
        found = f"would read about {rows:,} rows" if rows is not None else f"took longer than {after_s:g} s"
        words = f"the query {found}; at most {most_rows:,} rows are read: {_NARROW}"
        super().__init__([FieldError(field="body", message=words)], words)
        self.details |= {"reason": "QUERY_TOO_COSTLY", "rows": rows, "most_rows": most_rows}


class RateMissing(InvalidInput):
    """Amounts cannot be converted: the tenant has set no rate for some days."""

    def __init__(self, currency: str, missing: Sequence[tuple[str, date]]) -> None:
        pairs = [
            {"from": source, "to": currency, "days": list(_spans(day for _, day in days))}
            for source, days in groupby(sorted(missing), key=lambda one: one[0])
        ]
        words = "; ".join(f"{pair['from']} to {pair['to']} on {_shown(pair['days'])}" for pair in pairs)
        told = f"no rate for {words}: set one with cost_rate_set, or leave out currency"
        super().__init__([FieldError(field="currency", message=told)], told)
        self.details |= {"reason": "RATE_MISSING", "missing": pairs}


def _spans(days: Iterable[date]) -> Iterable[dict[str, str]]:
    """Return days as spans from a first to a last day."""
    known = sorted(set(days))
    for _, run in groupby(enumerate(known), key=lambda one: one[1] - timedelta(days=one[0])):
        span = [day for _, day in run]
        yield {"first": span[0].isoformat(), "last": span[-1].isoformat()}


def _shown(spans: Any) -> str:
    words = [span["first"] if span["first"] == span["last"] else f"{span['first']} to {span['last']}" for span in spans]
    return ", ".join(words[:_MOST_SHOWN]) + (
        f" and {len(words) - _MOST_SHOWN} more" if len(words) > _MOST_SHOWN else ""
    )
