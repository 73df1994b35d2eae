"""The query language: what is sent, what comes back, and its description for programs."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from dragoman.operations import Input, Output
from dragoman_costs.query.catalogue import DatasetName, Grain, Operator, Type

FieldName = Annotated[str, Field(min_length=1, max_length=300)]
Scalar = Annotated[str, Field(max_length=1_000)] | bool | int | float
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$", description="Three letters, such as EUR.")]
FIRST_DAY = date(1990, 1, 1)
LAST_DAY = date(2199, 12, 31)
Day = Annotated[date, Field(ge=FIRST_DAY, le=LAST_DAY)]
MOST_FILTERS, MOST_COLUMNS, MOST_VALUES, MOST_ROWS = 20, 20, 500, 5_000


class Direction(StrEnum):
    """Which end comes first."""

    ASC = "asc"
    DESC = "desc"


class Filter(Input):
    """A condition; a query keeps what satisfies all of its filters."""

    field: FieldName = Field(
        description="A dimension of the dataset, `day`, `tag:KEY`, or a measure; measures are compared after summing."
    )
    op: Operator = Field(
        Operator.EQ,
        description="Text: eq, ne, in, not_in, contains (letter case is ignored), starts_with. Dates, amounts and "
        "counts: eq, ne, gt, gte, lt, lte.",
    )
    value: Scalar | Annotated[list[Scalar], Field(min_length=1, max_length=MOST_VALUES)] | None = Field(
        description="What to compare with: a list for in and not_in, else one value. Amounts are decimal strings "
        'such as "12.50", dates ISO dates. null finds what does not have the tag.',
    )


class OrderBy(Input):
    """A column to sort by."""

    field: FieldName = Field(description="A column of the answer.")
    direction: Direction = Field(Direction.DESC, description="desc: the largest first.")


class CostQuery(Input):
    """A question about costs. Amounts are kept apart by currency: every row of the answer has one."""

    dataset: DatasetName = Field(
        DatasetName.COSTS,
        description="costs: charges, summed. resources: charges by resource. tags: which tags there are and what they "
        "cost. rows: single rows of billing data with their file and line.",
    )
    measures: list[FieldName] | None = Field(
        None,
        max_length=MOST_COLUMNS,
        description="What to sum: effective (the usual one), billed, list, contracted, untagged, row_count; of "
        "resources also quantity. Unset: effective.",
    )
    dimensions: list[FieldName] = Field(
        default_factory=list[str],
        max_length=MOST_COLUMNS,
        description="What to group by: provider, account, account_name, service, service_category, region, "
        "sub_account, charge_category, pricing_category, tag:KEY, resource; see costs_schema. Of rows: which columns.",
    )
    filters: list[Filter] = Field(
        default_factory=list[Filter], max_length=MOST_FILTERS, description="Conditions, all of which hold."
    )
    start_date: Day | None = Field(None, description="The first day, in UTC.", examples=["2026-10-01"])
    end_date: Day | None = Field(None, description="The last day, which is included.", examples=["2026-10-31"])
    grain: Grain | None = Field(
        None, description="Also group by day, week, month, quarter or year; the column has this name."
    )
    order_by: list[OrderBy] = Field(
        default_factory=list[OrderBy],
        max_length=MOST_COLUMNS,
        description="How to sort. Unset: by time, then by the first measure, the largest first.",
    )
    limit: int = Field(
        100, ge=1, le=MOST_ROWS, description="How many rows at most; `truncated` says if there are more."
    )
    currency: Currency | None = Field(
        None,
        description="Convert all amounts to this currency, by the rates that the tenant has set (cost_rate_set). "
        "Without it nothing is converted.",
    )


class Column(Output):
    """A column of an answer."""

    name: str
    type: Type


class CostResult(Output):
    """The answer to a query."""

    columns: list[Column]
    rows: list[dict[str, Any]] = Field(description="A value for each column, by its name.")
    truncated: bool = Field(description="Whether there are more rows than the limit.")
    source: str = Field(description="What answered: the roll-up totals, services, daily, tags or resources, or rows.")


class DescribeCosts(Input):
    """Nothing is needed."""


class FieldDescription(Output):
    """A dimension or a measure."""

    name: str
    type: Type
    description: str
    operators: list[Operator] = Field(description="How a filter may compare it.")


_EXAMPLE: Final = [{"name": "service", "type": "text", "description": "The service.", "operators": ["eq"]}]


class DatasetDescription(Output):
    """What can be asked of a dataset."""

    name: DatasetName
    description: str
    dimensions: list[FieldDescription] = Field(examples=[_EXAMPLE])
    measures: list[FieldDescription] = Field(examples=[_EXAMPLE])
    grains: list[Grain]
    by_default: list[str] = Field(description="The columns of a query that names none.")


class QueryExample(Output):
    """A question in words, and as a query."""

    question: str
    query: dict[str, Any]


class CostSchema(Output):
    """The query language, for programs and models."""

    datasets: list[DatasetDescription]
    query_schema: dict[str, Any] = Field(description="The JSON schema of a query.")
    most_rows_read: int = Field(description="A query that would read more rows is refused.")
    examples: list[QueryExample]
