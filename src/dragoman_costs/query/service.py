"""Rules of queries: what is asked is checked, what would read too much is refused, and currencies stay apart."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.infra.db import Scope, scope_of
from dragoman_costs.money import plain
from dragoman_costs.query import models as m
from dragoman_costs.query.catalogue import DATASETS, OPERATORS, Field, Grain, Operator
from dragoman_costs.query.errors import QueryTooCostly, RateMissing
from dragoman_costs.query.examples import EXAMPLES
from dragoman_costs.query.reading import Plan, read_query
from dragoman_costs.query.store import CostReader
from dragoman_costs.query.store_sources import Source, choose_source
from dragoman_costs.query.store_statement import Writing

# So few rows that asking how many there are would take as long as reading them.
_SMALLEST: Final = "totals"


class QueryService:
    """Answers questions about the costs of a tenant."""

    def __init__(self, reader: CostReader) -> None:
        self._reader = reader

    async def query(self, caller: Caller, query: m.CostQuery) -> m.CostResult:
        """Answer from the smallest roll-up that has all that the query names.

        Raises:
            InvalidInput: a name is unknown, or a filter does not fit its field.
            QueryTooCostly: it would read too many rows, or took too long.
            RateMissing: a conversion was asked for, and some day has no rate.
        """
        plan = read_query(query)
        source, scope = choose_source(plan), scope_of(caller)
        writing = Writing(caller.tenant, plan, source)
        async with self._reader.snapshot(scope):
            await self._check_cost(scope, plan, source, writing)
            if plan.currency is not None:
                missing = await self._reader.fetch(scope, Writing(caller.tenant, plan, source).unrated())
                if missing:
                    raise RateMissing(plan.currency, [(currency, day) for currency, day in missing])
            found = await self._reader.fetch(scope, writing.question())
        names = [field.name for field in plan.columns]
        return m.CostResult(
            columns=[m.Column(name=field.name, type=field.type) for field in plan.columns],
            rows=[_shown(names, row) for row in found[: plan.limit]],
            truncated=len(found) > plan.limit,
            source=source.name,
        )

    async def schema(self, caller: Caller, _: m.DescribeCosts) -> m.CostSchema:
        """Describe what can be asked."""
        del caller
        return m.CostSchema(
            datasets=[
                m.DatasetDescription(
                    name=dataset.name,
                    description=dataset.description,
                    dimensions=[_described(field) for field in dataset.dimensions.values()],
                    measures=[_described(field) for field in dataset.measures.values()],
                    grains=list(Grain) if dataset.grains else [],
                    by_default=list(dataset.by_default),
                )
                for dataset in DATASETS.values()
            ],
            query_schema=m.CostQuery.model_json_schema(),
            most_rows_read=self._reader.most_rows,
            examples=EXAMPLES,
        )

    async def _check_cost(self, scope: Scope, plan: Plan, source: Source, writing: Writing) -> None:
        most = self._reader.most_rows
        if source.name == _SMALLEST or await self._reader.count_shown(scope) <= most:
            return
        if source.single:
            rows = await self._reader.count_between(scope, plan.start, plan.end, _accounts(plan))
        else:
            rows = await self._reader.estimate(scope, writing.probe())
        if rows > most:
            raise QueryTooCostly(rows=rows, most_rows=most)


def _accounts(plan: Plan) -> list[UUID] | None:
    """Return the accounts that a query is narrowed to."""
    for condition in plan.conditions:
        if condition.field.name == "account" and condition.op in (Operator.EQ, Operator.IN):
            values = condition.value if isinstance(condition.value, list) else [condition.value]
            return [value for value in values if isinstance(value, UUID)]
    return None


def _shown(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in zip(names, row, strict=True)}


def _value(value: Any) -> Any:
    match value:
        case Decimal():
            return plain(value)
        case datetime() | date():
            return value.isoformat()
        case UUID():
            return str(value)
        case _:
            return value


def _described(field: Field) -> m.FieldDescription:
    return m.FieldDescription(
        name=field.name, type=field.type, description=field.description, operators=list(OPERATORS[field.type])
    )
