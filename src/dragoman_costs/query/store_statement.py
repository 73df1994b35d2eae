"""Writes the statement of a query: of fragments that are literals, with every value as a parameter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

from dragoman_costs.query.catalogue import TAG_PREFIX, Field, Operator, Type
from dragoman_costs.query.models import Direction
from dragoman_costs.query.reading import Condition, Plan
from dragoman_costs.query.store_sources import AMOUNTS, CURRENT, GRAINS, NAMED, TAG_KEY, Source

_PLACES: Final[Sequence[LiteralString]] = (
    "$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$16", "$17", "$18",
    "$19", "$20", "$21", "$22", "$23", "$24", "$25", "$26", "$27", "$28", "$29", "$30", "$31", "$32", "$33", "$34",
)  # fmt: skip
_CASTS: Final[Mapping[Type, LiteralString]] = {
    Type.TEXT: "text", Type.ID: "uuid", Type.DATE: "date", Type.AMOUNT: "numeric", Type.COUNT: "bigint",
}  # fmt: skip
_COMPARISONS: Final[Mapping[Operator, LiteralString]] = {
    Operator.EQ: "=", Operator.GT: ">", Operator.GTE: ">=", Operator.LT: "<", Operator.LTE: "<=",
    Operator.NE: "IS DISTINCT FROM",
}  # fmt: skip
_DIRECTIONS: Final[Mapping[Direction, LiteralString]] = {Direction.ASC: "ASC", Direction.DESC: "DESC"}
# The rate of a day: one for the day itself, else that of its month.
RATES: Final[LiteralString] = """
LEFT JOIN cost_rates rd ON rd.tenant_id = $1 AND rd.from_currency = d.currency AND rd.to_currency = {currency}
    AND rd.grain = 'day' AND rd.day = d.day
LEFT JOIN cost_rates rm ON rm.tenant_id = $1 AND rm.from_currency = d.currency AND rm.to_currency = {currency}
    AND rm.grain = 'month' AND rm.day = date_trunc('month', d.day::timestamp)::date"""
RATED: Final[LiteralString] = " * CASE WHEN d.currency = {currency} THEN 1 ELSE coalesce(rd.rate, rm.rate) END"
CURRENCY: Final[LiteralString] = "{currency}"
_MOST_MISSING: Final[LiteralString] = "LIMIT 1000"


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with its parameters."""

    sql: LiteralString
    arguments: Sequence[Any]


class Writing:
    """One query against one source. `$1` is the tenant; the parameters of a probe are the first of all the others."""

    def __init__(self, tenant: UUID, plan: Plan, source: Source) -> None:
        self._plan = plan
        self._source = source
        self._arguments: list[Any] = [tenant]
        self._table: LiteralString = source.table
        self._tags: dict[str, LiteralString] = {}
        self._days: list[LiteralString] = ["d.tenant_id = $1"]
        if source.condition:
            self._days.append(source.condition)
        for key in plan.tag_keys:
            self._tags[key] = self._place(key, "text")
            self._table = self._table.replace(TAG_KEY, self._tags[key])
        if plan.start is not None:
            self._days.append(f"d.day >= {self._place(plan.start, 'date')}")
        if plan.end is not None:
            self._days.append(f"d.day <= {self._place(plan.end, 'date')}")
        self._probed = len(self._arguments)
        self._currency: LiteralString = self._place(plan.currency, "text") if plan.currency else ""

    def probe(self) -> Statement:
        """Ask the planner how many rows lie in the time of the query; nothing is read."""
        sql: LiteralString = f"EXPLAIN (FORMAT JSON) SELECT FROM {self._table} d {CURRENT} WHERE {_all(self._days)}"
        return Statement(sql, self._arguments[: self._probed])

    def question(self) -> Statement:
        """Return the statement that answers; it asks for one row more than the limit."""
        plan = self._plan
        where, having = self._where(), self._having()
        selected: list[LiteralString] = [self._expression(field) for field in plan.columns]
        parts: list[LiteralString] = [f"SELECT {_listed(selected)}", self._from(), f"WHERE {_all(where)}"]
        if plan.sums:
            groups: list[LiteralString] = [
                self._expression(field) for field in plan.dimensions if field.name != "currency"
            ]
            if not self._currency:
                groups.append("d.currency")
            # Without a group there would be a row even where there are no charges.
            parts.append(f"GROUP BY {_listed(groups)}" if groups else "GROUP BY ()")
            having.extend(self._not_empty(groups))
        if having:
            parts.append(f"HAVING {_all(having)}")
        parts.append(f"ORDER BY {_listed(self._order())}")
        parts.append(f"LIMIT {self._place(plan.limit + 1, 'bigint')}")
        return Statement("\n".join(parts), self._arguments)

    def unrated(self) -> Statement:
        """Ask for the currencies and days that cannot be converted."""
        where = self._where()
        where.append(f"d.currency <> {self._currency}")
        where.append("coalesce(rd.rate, rm.rate) IS NULL")
        parts: list[LiteralString] = [
            "SELECT d.currency, d.day", self._from(), f"WHERE {_all(where)}", "GROUP BY 1, 2 ORDER BY 1, 2",
            _MOST_MISSING,
        ]  # fmt: skip
        return Statement("\n".join(parts), self._arguments)

    def _from(self) -> LiteralString:
        named = {field.name for field in self._plan.columns} | {one.field.name for one in self._plan.conditions}
        parts: list[LiteralString] = [f"FROM {self._table} d", CURRENT]
        if "account_name" in named:
            parts.append(NAMED)
        if self._currency:
            parts.append(RATES.replace(CURRENCY, self._currency))
        return "\n".join(parts)

    def _not_empty(self, groups: Sequence[LiteralString]) -> list[LiteralString]:
        # What has the tag is taken away from the totals: nothing may be left.
        needed = self._source.name == "tags" or not groups
        return [f"{self._sum('row_count')} <> 0"] if needed else []

    def _expression(self, field: Field) -> LiteralString:
        name, source = field.name, self._source
        if name == "currency" and self._currency:
            return self._currency
        if name.startswith(TAG_PREFIX):
            place = self._tags[name.removeprefix(TAG_PREFIX)]
            # As in the roll-up: a tag without a value has the empty one.
            return f"CASE WHEN d.tags ? {place} THEN coalesce(d.tags ->> {place}, '') END" if source.single else "d.tag"
        if name in source.columns:
            return source.columns[name]
        if name in GRAINS:
            return GRAINS[name]
        if not self._plan.sums:
            return self._amount(name)
        return self._sum(name)

    def _amount(self, name: str) -> LiteralString:
        rated = RATED.replace(CURRENCY, self._currency) if self._currency else ""
        return f"{AMOUNTS[name]}{rated}" if name in AMOUNTS else "d.quantity"

    def _sum(self, name: str) -> LiteralString:
        single = self._source.single
        if name == "row_count":
            return "count(*)" if single else "sum(d.row_count)::bigint"
        if name == "untagged" and single:
            untagged: LiteralString = "FILTER (WHERE d.tags = '{}')"
            return f"coalesce(sum({self._amount('effective')}) {untagged}, 0)"
        return f"sum({self._amount(name)})"

    def _where(self) -> list[LiteralString]:
        before = [condition for condition in self._plan.conditions if not self._is_summed(condition)]
        return self._days + [self._compare(self._filtered(condition.field), condition) for condition in before]

    def _having(self) -> list[LiteralString]:
        after = [condition for condition in self._plan.conditions if self._is_summed(condition)]
        return [self._compare(self._sum(condition.field.name), condition) for condition in after]

    def _is_summed(self, condition: Condition) -> bool:
        return self._plan.sums and condition.field.name in self._plan.dataset.measures

    def _filtered(self, field: Field) -> LiteralString:
        # What is asked is in which currency a charge was, whatever it is converted to.
        return "d.currency" if field.name == "currency" else self._expression(field)

    def _compare(self, expression: LiteralString, condition: Condition) -> LiteralString:
        op, value = condition.op, condition.value
        if value is None:
            return f"{expression} IS NULL" if op is Operator.EQ else f"{expression} IS NOT NULL"
        cast = _CASTS[condition.field.type]
        match op:
            case Operator.IN:
                return f"{expression} = ANY({self._place(value, cast)}[])"
            case Operator.NOT_IN:
                return f"({expression} IS NULL OR {expression} <> ALL({self._place(value, cast)}[]))"
            case Operator.CONTAINS:
                return f"strpos(lower({expression}), lower({self._place(value, cast)})) > 0"
            case Operator.STARTS_WITH:
                return f"starts_with({expression}, {self._place(value, cast)})"
            case _:
                return f"{expression} {_COMPARISONS[op]} {self._place(value, cast)}"

    def _order(self) -> list[LiteralString]:
        plan = self._plan
        columns = {field.name: field for field in plan.columns}
        chosen = list(plan.order)
        if not chosen and plan.sums:
            chosen = [(name, Direction.ASC) for name in columns if name in GRAINS]
            chosen += [(field.name, Direction.DESC) for field in plan.measures[:1]]
        by: list[LiteralString] = [
            f"{self._sorted(columns[name])} {_DIRECTIONS[direction]} NULLS LAST" for name, direction in chosen
        ]
        if not plan.sums:
            return [*by, "d.day", 's.file_name COLLATE "C"', "d.slice_id", "d.line"]
        # What is equal so far has one order all the same, so that a limit cuts in one place.
        rest = [field for field in plan.dimensions if field.name not in dict(chosen)]
        return by + [f"{self._sorted(field)} NULLS LAST" for field in rest]

    def _sorted(self, field: Field) -> LiteralString:
        expression = self._expression(field)
        return f'({expression}) COLLATE "C"' if field.type is Type.TEXT else expression

    def _place(self, value: Any, cast: LiteralString) -> LiteralString:
        self._arguments.append(value)
        return f"{_PLACES[len(self._arguments) - 1]}::{cast}"


def _listed(parts: Sequence[LiteralString]) -> LiteralString:
    return ", ".join(parts)


def _all(parts: Sequence[LiteralString]) -> LiteralString:
    return " AND ".join(parts)
