"""What can be asked: datasets with their dimensions and measures, and which filter fits which type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Type(StrEnum):
    """The type of a column; an amount is a decimal string, and a date is an ISO date."""

    TEXT = "text"
    ID = "id"
    DATE = "date"
    TIME = "time"
    AMOUNT = "amount"
    COUNT = "count"
    OBJECT = "object"


class Operator(StrEnum):
    """How a filter compares."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    NOT_IN = "not_in"
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"


_EQUAL: Final = (Operator.EQ, Operator.NE, Operator.IN, Operator.NOT_IN)
_ORDERED: Final = (Operator.EQ, Operator.NE, Operator.GT, Operator.GTE, Operator.LT, Operator.LTE)
OPERATORS: Final[Mapping[Type, Sequence[Operator]]] = {
    Type.TEXT: (*_EQUAL, Operator.CONTAINS, Operator.STARTS_WITH),
    Type.ID: _EQUAL,
    Type.DATE: _ORDERED,
    Type.TIME: (),
    Type.AMOUNT: _ORDERED,
    Type.COUNT: _ORDERED,
    Type.OBJECT: (),
}


class Grain(StrEnum):
    """A length of time; its column holds the first day of each. Weeks begin on Monday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


class DatasetName(StrEnum):
    """What a query is about."""

    COSTS = "costs"
    RESOURCES = "resources"
    TAGS = "tags"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Field:
    """A dimension or a measure."""

    name: str
    type: Type
    description: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """What can be asked of one kind of data; `by_default` are the columns of a query that names none."""

    name: DatasetName
    description: str
    dimensions: Mapping[str, Field]
    measures: Mapping[str, Field]
    tags: bool = False
    grains: bool = True
    by_default: Sequence[str] = field(default=())


TAG_PREFIX: Final = "tag:"
_DIMENSIONS: Final[dict[str, Field]] = {
    one.name: one
    for one in (
        Field("provider", Type.TEXT, "Who sends the bill, such as `AWS` or `Microsoft`."),
        Field("account", Type.ID, "The id of the cloud account that the data was imported for."),
        Field("account_name", Type.TEXT, "The name of that cloud account."),
        Field("service", Type.TEXT, "The service as the provider calls it, such as `Amazon Elastic Compute Cloud`."),
        Field("service_category", Type.TEXT, "The kind of service, such as `Compute` or `Storage`."),
        Field("region", Type.TEXT, "The id of the region; empty where there is none."),
        Field("sub_account", Type.TEXT, "The id of the sub account, subscription or project within the account."),
        Field("sub_account_name", Type.TEXT, "The name of the sub account."),
        Field("charge_category", Type.TEXT, "`Usage`, `Purchase`, `Tax`, `Credit` or `Adjustment`."),
        Field("pricing_category", Type.TEXT, "`Standard`, `Committed`, `Dynamic` or `Other`."),
        Field("currency", Type.TEXT, "The currency of the amounts in this row; every answer has it."),
    )
}
_RESOURCE: Final[dict[str, Field]] = {
    one.name: one
    for one in (
        Field("resource", Type.TEXT, "The id of the resource."),
        Field("resource_name", Type.TEXT, "The name of the resource."),
        Field("resource_type", Type.TEXT, "The type of the resource, such as `Virtual Machine`."),
        Field("unit", Type.TEXT, "The unit of `quantity`; it is shown wherever the quantity is."),
    )
}
_ROW: Final[dict[str, Field]] = {
    one.name: one
    for one in (
        Field("day", Type.DATE, "The day of the charge, in UTC."),
        Field("charge_start", Type.TIME, "When the charge begins."),
        Field("charge_end", Type.TIME, "When the charge ends, exclusive."),
        Field("charge_description", Type.TEXT, "What is charged, in the words of the provider."),
        Field("commitment_id", Type.TEXT, "The commitment that covers the charge, if any."),
        Field("commitment_status", Type.TEXT, "`Used` or `Unused` where a commitment is involved."),
        Field("file", Type.TEXT, "The file that the row came in."),
        Field("line", Type.COUNT, "The line of the row in its file, the header not counted."),
        Field("tags", Type.OBJECT, "All tags of the row."),
        Field("extra", Type.OBJECT, "All other columns of the file, as text."),
    )
}
_TAG: Final[dict[str, Field]] = {
    one.name: one
    for one in (
        Field("tag_key", Type.TEXT, "The key of a tag."),
        Field("tag_value", Type.TEXT, "Its value."),
    )
}
_AMOUNTS: Final[dict[str, Field]] = {
    one.name: one
    for one in (
        Field("effective", Type.AMOUNT, "What was used, prepayments spread over their time: the usual measure."),
        Field("billed", Type.AMOUNT, "What is invoiced."),
        Field("list", Type.AMOUNT, "What it would cost at public prices."),
        Field("contracted", Type.AMOUNT, "What it would cost at negotiated prices, without commitments."),
    )
}
_ROW_COUNT: Final = {"row_count": Field("row_count", Type.COUNT, "How many rows of billing data are behind it.")}
_QUANTITY: Final = {"quantity": Field("quantity", Type.AMOUNT, "How much was used, in `unit`.")}
_UNTAGGED: Final = {"untagged": Field("untagged", Type.AMOUNT, "Effective cost of the rows that have no tag at all.")}


def _some(*names: str) -> dict[str, Field]:
    return {name: _DIMENSIONS[name] for name in names}


DATASETS: Final[Mapping[DatasetName, Dataset]] = {
    one.name: one
    for one in (
        Dataset(
            DatasetName.COSTS,
            "Charges, summed. The dimension `tag:KEY` is the value of that tag, null where a charge does not have it.",
            dimensions=_DIMENSIONS,
            measures=_AMOUNTS | _UNTAGGED | _ROW_COUNT,
            tags=True,
            by_default=("effective",),
        ),
        Dataset(
            DatasetName.RESOURCES,
            "Charges of single resources, summed; charges that name no resource are not among them.",
            dimensions=_RESOURCE
            | _some("provider", "account", "account_name", "service", "region", "sub_account", "charge_category",
                    "pricing_category", "currency"),
            measures=_AMOUNTS | _QUANTITY | _ROW_COUNT,
            tags=True,
            by_default=("effective",),
        ),
        Dataset(
            DatasetName.TAGS,
            "Charges by tag: one with several tags counts once for each of them, so sums over keys mean nothing.",
            dimensions=_TAG | _some("provider", "account", "account_name", "service", "charge_category", "currency"),
            measures=_AMOUNTS | _ROW_COUNT,
            by_default=("effective",),
        ),
        Dataset(
            DatasetName.ROWS,
            "Single rows of billing data, with the file and the line that they came from; nothing is summed.",
            dimensions=_ROW | _DIMENSIONS | _RESOURCE,
            measures=_AMOUNTS | _QUANTITY,
            tags=True,
            grains=False,
            by_default=("day", "account_name", "service", "resource", "charge_category", "charge_description", "unit",
                        "file", "line", "effective", "billed", "quantity"),
        ),
    )
}  # fmt: skip
# What people and models write for a field, where spelling alone would not find it.
SYNONYMS: Final[Mapping[str, str]] = {
    "cost": "effective", "costs": "effective", "spend": "effective", "amount": "effective", "total": "effective",
    "effective_cost": "effective", "billed_cost": "billed", "list_cost": "list", "contracted_cost": "contracted",
    "count": "row_count", "rows": "row_count", "usage": "quantity", "date": "day", "time": "day", "cloud": "provider",
    "vendor": "provider", "product": "service", "category": "service_category", "account_id": "account",
    "project": "sub_account", "subscription": "sub_account", "resource_id": "resource", "tag": "tag:KEY",
    "location": "region", "zone": "region", "team": "tag:team", "environment": "tag:environment",
}  # fmt: skip
