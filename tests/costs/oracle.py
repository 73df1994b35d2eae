"""Answers cost queries in plain Python over the rows: what the server says must be equal, to the last digit."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal, localcontext
from typing import Any, Final

from tests.costs.billing import Row, Tenant

Json = dict[str, Any]
_PRECISION: Final = 80
_TIMES: Final[Mapping[str, Callable[[date], date]]] = {
    "day": lambda day: day,
    "week": lambda day: day - timedelta(days=day.weekday()),
    "month": lambda day: day.replace(day=1),
    "quarter": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "year": lambda day: day.replace(month=1, day=1),
}
_AMOUNTS: Final = ("effective", "billed", "list", "contracted", "quantity")
_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": lambda one, other: one == other,
    "ne": lambda one, other: one != other,
    "in": lambda one, other: one in other,
    "not_in": lambda one, other: one not in other,
    "contains": lambda one, other: one is not None and other.lower() in one.lower(),
    "starts_with": lambda one, other: one is not None and one.startswith(other),
    "gt": lambda one, other: one > other,
    "gte": lambda one, other: one >= other,
    "lt": lambda one, other: one < other,
    "lte": lambda one, other: one <= other,
}


def answer(tenant: Tenant, rows: Sequence[Row], query: Json) -> list[Json]:
    """Return the rows of the answer, without their order and without a limit."""
    dataset = query.get("dataset", "costs")
    measures = query.get("measures") or ["effective"]
    dimensions = [*([query["grain"]] if query.get("grain") else []), *query.get("dimensions", [])]
    if "quantity" in measures and "unit" not in dimensions:
        dimensions.append("unit")
    if "currency" not in dimensions:
        dimensions.append("currency")
    filters = query.get("filters", [])
    before = [one for one in filters if one["field"] not in (*_AMOUNTS, "row_count", "untagged")]
    after = [one for one in filters if one not in before]
    first = date.fromisoformat(query.get("start_date", "0001-01-01"))
    last = date.fromisoformat(query.get("end_date", "9999-12-31"))
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row, seen in _charges(dataset, rows):
        if first <= row.day <= last and all(_holds(tenant, row, seen, one) for one in before):
            groups.setdefault(tuple(_of(tenant, row, seen, name) for name in dimensions), []).append(row)
    found = [
        dict(zip(dimensions, key, strict=True)) | {name: _sum(group, name) for name in measures}
        for key, group in groups.items()
        if all(_COMPARE[one["op"]](_sum(group, one["field"]), _number(one["value"])) for one in after)
    ]
    return [{name: _wire(value) for name, value in one.items()} for one in found]


def _charges(dataset: str, rows: Sequence[Row]) -> list[tuple[Row, tuple[str, str] | None]]:
    if dataset == "tags":
        return [(row, pair) for row in rows for pair in row.tags.items()]
    return [(row, None) for row in rows if dataset != "resources" or row.resource]


def _of(tenant: Tenant, row: Row, seen: tuple[str, str] | None, name: str) -> Any:
    if name.startswith("tag:"):
        return row.tags.get(name.removeprefix("tag:"))
    if name in _TIMES:
        return _TIMES[name](row.day)
    if name.startswith("tag_"):
        return None if seen is None else seen[name == "tag_value"]
    if name == "account":
        return str(tenant.accounts[row.account])
    return getattr(row, {"account_name": "account"}.get(name, name))


def _holds(tenant: Tenant, row: Row, seen: tuple[str, str] | None, condition: Json) -> bool:
    value = condition["value"]
    if condition["field"] == "day":
        value = date.fromisoformat(value)
    return _COMPARE[condition["op"]](_of(tenant, row, seen, condition["field"]), value)


def _sum(group: Sequence[Row], name: str) -> Any:
    with localcontext() as context:
        context.prec = _PRECISION
        if name == "row_count":
            return len(group)
        if name == "untagged":
            return sum((row.effective for row in group if not row.tags), Decimal(0))
        values = [value for row in group if (value := getattr(row, name)) is not None]
        return sum(values, Decimal(0)) if values else None


def _number(value: Any) -> Decimal:
    return Decimal(str(value))


def _wire(value: Any) -> Any:
    """Return a value as it is compared: an amount by its value, whatever zeros it ends with."""
    return value.isoformat() if isinstance(value, date) else value
