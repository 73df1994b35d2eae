"""Reads a query: every name and every value is checked, and what is wrong is said with the nearest valid name."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Final
from uuid import UUID

from dragoman.errors import FieldError, InvalidInput
from dragoman_costs.query.catalogue import (
    DATASETS,
    OPERATORS,
    SYNONYMS,
    TAG_PREFIX,
    Dataset,
    DatasetName,
    Field,
    Grain,
    Operator,
    Type,
)
from dragoman_costs.query.models import FIRST_DAY, LAST_DAY, CostQuery, Direction, Filter, Scalar

Value = str | UUID | date | Decimal | int
_DAY: Final = Field("day", Type.DATE, "The day of the charge, in UTC.")
_LISTS: Final = (Operator.IN, Operator.NOT_IN)
_LARGEST: Final = Decimal(10) ** 30
_MOST_TAGS: Final = 5


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter whose value has the type of its field; a list where the operator takes one."""

    field: Field
    op: Operator
    value: Value | list[Value] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A query that was checked: what to select, and how."""

    dataset: Dataset
    dimensions: Sequence[Field]
    measures: Sequence[Field]
    conditions: Sequence[Condition]
    order: Sequence[tuple[str, Direction]]
    start: date | None
    end: date | None
    limit: int
    currency: str | None

    @property
    def columns(self) -> list[Field]:
        """Return the columns of the answer."""
        return [*self.dimensions, *self.measures]

    @property
    def sums(self) -> bool:
        """Check whether rows are summed, rather than shown one by one."""
        return self.dataset.name is not DatasetName.ROWS

    @property
    def tag_keys(self) -> list[str]:
        """Return the keys of the tags that are asked for."""
        names = [field.name for field in self.dimensions] + [condition.field.name for condition in self.conditions]
        keys = [name.removeprefix(TAG_PREFIX) for name in names if name.startswith(TAG_PREFIX)]
        return list(dict.fromkeys(keys))


def read_query(query: CostQuery) -> Plan:
    """Return what a query asks for.

    Raises:
        InvalidInput: a name is unknown, or a filter does not fit its field; every such place is named.
    """
    return _Reading(query).plan()


class _Reading:
    """One query, and what is wrong with it so far."""

    def __init__(self, query: CostQuery) -> None:
        self._query = query
        self._dataset = DATASETS[query.dataset]
        self._errors: list[FieldError] = []

    def plan(self) -> Plan:
        query = self._query
        measures = self._measures()
        dimensions = self._dimensions(measures)
        conditions = [
            condition
            for place, one in enumerate(query.filters)
            if (condition := self._condition(f"filters.{place}", one)) is not None
        ]
        if query.start_date and query.end_date and query.end_date < query.start_date:
            self._complain("end_date", "must not be before start_date")
        order = self._order([*dimensions, *measures])
        plan = Plan(
            self._dataset, dimensions, measures, conditions, order, query.start_date, query.end_date, query.limit,
            query.currency,
        )  # fmt: skip
        if len(plan.tag_keys) > _MOST_TAGS:
            self._complain("dimensions", f"at most {_MOST_TAGS} different tags in one query")
        if self._errors:
            raise InvalidInput(self._errors)
        return plan

    def _measures(self) -> list[Field]:
        known = self._dataset.measures
        chosen = self._query.measures
        if chosen is None:
            names = [name for name in self._dataset.by_default if name in known]
            return [known[name] for name in names] if not self._query.dimensions or names else []
        found = [
            known[name]
            for place, name in enumerate(chosen)
            if self._knows(f"measures.{place}", "measure", name, known, self._dataset.dimensions)
        ]
        if not chosen and self._dataset.grains:
            self._complain("measures", f"must name at least one of: {', '.join(known)}")
        return self._once("measures", found)

    def _dimensions(self, measures: Sequence[Field]) -> list[Field]:
        query, dataset = self._query, self._dataset
        names = list(query.dimensions)
        if not names and not dataset.grains and query.measures is None:
            names = [name for name in dataset.by_default if name in dataset.dimensions]
        found = [field for place, name in enumerate(names) if (field := self._dimension(f"dimensions.{place}", name))]
        found = self._once("dimensions", found)
        if query.grain is not None:
            if not dataset.grains:
                self._complain("grain", f"dataset {dataset.name.value!r} is not summed: use the column 'day'")
            elif all(field.name != query.grain for field in found):
                found.insert(0, _of_grain(query.grain))
        present = {field.name for field in found}
        if "quantity" in {field.name for field in measures} and "unit" not in present:
            found.append(dataset.dimensions["unit"])
        if "currency" not in present:
            found.append(dataset.dimensions["currency"])
        return found

    def _dimension(self, place: str, name: str) -> Field | None:
        dataset = self._dataset
        if dataset.grains and name in list(Grain):
            return _of_grain(Grain(name))
        if (tag := self._tag(name)) is not None:
            return tag
        known = [*dataset.dimensions, *(list(Grain) if dataset.grains else [])]
        if self._knows(place, "dimension", name, known, dataset.measures):
            return dataset.dimensions[name]
        return None

    def _tag(self, name: str) -> Field | None:
        key = name.removeprefix(TAG_PREFIX)
        if self._dataset.tags and key and key != name:
            return Field(name, Type.TEXT, f"The value of the tag {key}.")
        return None

    def _condition(self, place: str, given: Filter) -> Condition | None:
        dataset = self._dataset
        known = {"day": _DAY} | dict(dataset.dimensions) | dict(dataset.measures)
        field = self._tag(given.field) or known.get(given.field)
        if field is None:
            self._knows(f"{place}.field", "field", given.field, known, ())
            return None
        allowed = OPERATORS[field.type]
        if given.op not in allowed:
            choice = ", ".join(allowed) or "none: it can only be shown"
            self._complain(
                f"{place}.op", f"{given.op.value} does not fit {field.name} ({field.type}); it takes {choice}"
            )
            return None
        try:
            return Condition(field, given.op, _value(field, given))
        except ValueError as error:
            self._complain(f"{place}.value", str(error))
            return None

    def _order(self, columns: Sequence[Field]) -> list[tuple[str, Direction]]:
        shown = {field.name: field for field in columns}
        return [
            (one.field, one.direction)
            for place, one in enumerate(self._query.order_by)
            if self._knows(f"order_by.{place}.field", "column", one.field, shown, ())
        ]

    def _once(self, place: str, found: Sequence[Field]) -> list[Field]:
        names = [field.name for field in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            self._complain(place, f"names {', '.join(twice)} twice")
        return list(found)

    def _knows(self, place: str, kind: str, name: str, known: Collection[str], elsewhere: Collection[str]) -> bool:
        if name in known:
            return True
        where = "" if kind == "column" else f" of dataset {self._dataset.name.value!r}"
        words = f"unknown {kind} {name[:100]!r}{where}"
        if name in elsewhere:
            words = f"{name!r} is no {kind}: move it to {'measures' if kind == 'dimension' else 'dimensions'}"
        elif nearest := _nearest(name, known):
            words += f"; did you mean {nearest!r}?"
        tags = ", tag:KEY" if self._dataset.tags and kind in ("dimension", "field") else ""
        self._complain(place, f"{words} Known here: {', '.join(known)}{tags}")
        return False

    def _complain(self, field: str, message: str) -> None:
        self._errors.append(FieldError(field=field, message=message))


def _of_grain(grain: Grain) -> Field:
    return Field(grain.value, Type.DATE, f"The first day of the {grain.value}.")


def _nearest(name: str, known: Collection[str]) -> str | None:
    folded = name.strip().lower().replace(" ", "_").replace("-", "_")
    if folded in known:
        return folded
    if (other := SYNONYMS.get(folded)) and (other in known or other.startswith(TAG_PREFIX)):
        return other
    return next(iter(difflib.get_close_matches(folded, list(known), n=1, cutoff=0.5)), None)


def _value(field: Field, given: Filter) -> Value | list[Value] | None:
    """Return the value of a filter in the type of its field.

    Raises:
        ValueError: it does not fit.
    """
    value = given.value
    if given.op in _LISTS:
        if not isinstance(value, list):
            raise ValueError(f"must be a list for {given.op.value}")
        return [_typed(field, one) for one in value]
    if isinstance(value, list):
        raise ValueError(f"must be one value for {given.op.value}; use in or not_in for a list")  # noqa: TRY004
    if value is None:
        if field.type is not Type.TEXT or given.op not in (Operator.EQ, Operator.NE):
            raise ValueError("must not be null: null stands for a tag that is not there, with eq or ne")
        return None
    return _typed(field, value)


def _typed(field: Field, value: Scalar) -> Value:
    match field.type:
        case Type.TEXT if isinstance(value, str):
            return value
        case Type.ID if isinstance(value, str) and (found := _parsed_id(value)) is not None:
            return found
        case Type.DATE if isinstance(value, str) and (day := _parsed_day(value)) is not None:
            return day
        case Type.AMOUNT if not isinstance(value, bool) and (amount := _parsed_amount(value)) is not None:
            return amount
        case Type.COUNT if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
            return value
        case _:
            raise ValueError(f"{field.name} is compared with {_EXPECTED[field.type]}, not with {str(value)[:100]!r}")


_EXPECTED: Final[Mapping[Type, str]] = {
    Type.TEXT: 'text, such as "Compute"',
    Type.ID: "the id of an account (a UUID); filter account_name for its name",
    Type.DATE: 'a date such as "2026-10-31"',
    Type.AMOUNT: 'an amount, as a decimal string such as "12.50"',
    Type.COUNT: "a whole number",
}


def _parsed_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _parsed_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if FIRST_DAY <= day <= LAST_DAY else None


def _parsed_amount(value: str | float) -> Decimal | None:
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and abs(amount) < _LARGEST and len(amount.as_tuple().digits) < 60 else None
