"""Conditions on memories, as callers write them, turned into a path that PostgreSQL evaluates.

    {"metadata.city": "Paris"}                            is the same as {"metadata.city": {"eq": "Paris"}}
    {"importance": {"gte": 0.5, "lt": 0.9}}               several conditions on a field: all of them
    {"or": [{"tags": {"contains": "a"}}, {"not": {...}}]}

A field is one of those below, or `metadata.<key>`, for which a bare key will do.
"""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from dragoman.errors import InvalidInput

_DATES = frozenset({"created_at", "valid_from", "expires_at"})
_PLAIN = frozenset({"tags", "layer", "importance", "content"}) | _DATES
_NESTED = frozenset({"metadata", "source", "ids"})
_RANGES = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
OPERATORS = ("eq", "ne", "in", "contains", "exists", *_RANGES)
_DEEPEST, _MOST_CONDITIONS, _LONGEST_FIELD = 8, 64, 200


def compile_filters(filters: dict[str, Any] | None) -> str | None:
    """A JSON path predicate, or None when there is nothing to filter by.

    Raises:
        InvalidInput: an operator or a value is not understood; the place is named.
    """
    return _Compiler().compile(filters, "filters", 0) if filters else None


class _Compiler:
    def __init__(self) -> None:
        self._conditions = 0

    def compile(self, node: Any, where: str, depth: int) -> str:
        if not isinstance(node, dict) or not node:
            raise InvalidInput.of(where, "must be an object with at least one condition")
        if depth > _DEEPEST:
            raise InvalidInput.of(where, f"must not be nested deeper than {_DEEPEST}")
        parts = [self._entry(key, value, where, depth) for key, value in cast("dict[str, Any]", node).items()]
        return f"({' && '.join(parts)})"

    def _entry(self, key: str, value: Any, where: str, depth: int) -> str:
        place = f"{where}.{key[:_LONGEST_FIELD]}"
        match key.lower():
            case "and" | "or" as word:
                if not isinstance(value, list) or not value:
                    raise InvalidInput.of(place, "must be a list of conditions")
                parts = [self.compile(item, place, depth + 1) for item in cast("list[Any]", value)]
                return f"({(' && ' if word == 'and' else ' || ').join(parts)})"
            case "not":
                return f"(!{self.compile(value, place, depth + 1)})"
            case _:
                return self._field(key, value, place)

    def _field(self, field: str, wanted: Any, where: str) -> str:
        path = _path(field, where)
        conditions = cast("dict[str, Any]", wanted) if isinstance(wanted, dict) else {"eq": wanted}
        if not conditions:
            raise InvalidInput.of(where, "must have a condition")
        parts: list[str] = []
        for operator, value in conditions.items():
            self._conditions += 1
            if self._conditions > _MOST_CONDITIONS:
                raise InvalidInput.of("filters", f"must not have more than {_MOST_CONDITIONS} conditions")
            name = operator.lower().removeprefix("$")
            if name not in OPERATORS:
                raise InvalidInput.of(
                    f"{where}.{operator[:50]}", f"is not an operator; use {', '.join(OPERATORS)}, and, or, not"
                )
            read = _date if field in _DATES else _literal
            parts.append(_condition(path, name, value, f"{where}.{name}", read))
        return f"({' && '.join(parts)})"


def _condition(path: str, operator: str, value: Any, where: str, read: Callable[[Any, str], str]) -> str:
    match operator:
        case "eq":
            return f"({path} == {read(value, where)})"
        case "ne":
            return f"(!({path} == {read(value, where)}))"
        case "in":
            if not isinstance(value, list) or not value or len(cast("list[Any]", value)) > _MOST_CONDITIONS:
                raise InvalidInput.of(where, f"must be a list of 1 to {_MOST_CONDITIONS} values")
            return "(" + " || ".join(f"{path} == {read(item, where)}" for item in cast("list[Any]", value)) + ")"
        case "contains":
            literal = read(value, where)
            inside = f' || {path} like_regex {literal} flag "iq"' if isinstance(value, str) and value else ""
            return f"({path} == {literal}{inside})"
        case "exists":
            if not isinstance(value, bool):
                raise InvalidInput.of(where, "must be true or false")
            return f"({'' if value else '!'}exists({path} ? (@ != null)))"
        case _:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise InvalidInput.of(where, "must be a number or a text")
            return f"({path} {_RANGES[operator]} {read(value, where)})"


def _path(field: str, where: str) -> str:
    if not field or len(field) > _LONGEST_FIELD:
        raise InvalidInput.of(where, f"a field has 1 to {_LONGEST_FIELD} characters")
    first, _, rest = field.partition(".")
    if field in _PLAIN:
        return f"$.{field}"
    parts = [first, *rest.split(".")] if rest and first in _NESTED else ["metadata", *field.split(".")]
    return "$" + "".join(f".{_literal(part, where)}" for part in parts)


def _literal(value: Any, where: str) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput.of(where, "must be a finite number")
    if isinstance(value, str) and ("\x00" in value or len(value) > 1_000):
        raise InvalidInput.of(where, "must have at most 1000 characters, none of them U+0000")
    if value is None or isinstance(value, bool | int | float | str):
        return json.dumps(value)
    raise InvalidInput.of(where, "must be a text, a number, true, false or null")


def _date(value: Any, where: str) -> str:
    try:
        at = datetime.fromisoformat(value)
        at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput.of(where, "must be a date or a time, such as 2026-01-31T12:00:00Z") from None
    return json.dumps(at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
