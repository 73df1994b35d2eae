"""The tables that can answer a query, the smallest first, and the SQL of each column that they have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from dragoman_costs.query.catalogue import TAG_PREFIX, DatasetName, Grain
from dragoman_costs.query.reading import Plan

# Every source is `d`, joined with its slice `s`: only rows of slices that are shown count.
CURRENT: Final[LiteralString] = "JOIN cost_slices s ON s.tenant_id = $1 AND s.id = d.slice_id AND s.state = 'current'"
NAMED: Final[LiteralString] = "LEFT JOIN cost_accounts a ON a.tenant_id = $1 AND a.id = s.account_id"
GRAINS: Final[Mapping[str, LiteralString]] = {
    Grain.DAY: "d.day",
    Grain.WEEK: "date_trunc('week', d.day::timestamp)::date",
    Grain.MONTH: "date_trunc('month', d.day::timestamp)::date",
    Grain.QUARTER: "date_trunc('quarter', d.day::timestamp)::date",
    Grain.YEAR: "date_trunc('year', d.day::timestamp)::date",
}
AMOUNTS: Final[Mapping[str, LiteralString]] = {
    "effective": "d.effective",
    "billed": "d.billed",
    "list": "d.list",
    "contracted": "d.contracted",
    "untagged": "d.untagged",
}
_TOTALS: Final[dict[str, LiteralString]] = {
    "day": "d.day", "provider": "d.provider", "account": "s.account_id", "account_name": "a.name",
    "currency": "d.currency",
}  # fmt: skip
_SERVICES: Final[dict[str, LiteralString]] = {**_TOTALS,
    "service": "d.service", "charge_category": "d.charge_category",
}  # fmt: skip
_DAILY: Final[dict[str, LiteralString]] = {**_SERVICES,
    "service_category": "d.service_category", "region": "d.region", "sub_account": "d.sub_account",
    "sub_account_name": "d.sub_account_name", "pricing_category": "d.pricing_category",
}  # fmt: skip
_RESOURCES: Final[dict[str, LiteralString]] = {**_SERVICES,
    "resource": "d.resource_id", "resource_name": "d.resource_name", "resource_type": "d.resource_type",
    "region": "d.region", "sub_account": "d.sub_account", "pricing_category": "d.pricing_category", "unit": "d.unit",
}  # fmt: skip
_ROWS: Final[dict[str, LiteralString]] = {
    **_DAILY, **_RESOURCES,
    "charge_start": "d.charge_start", "charge_end": "d.charge_end", "charge_description": "d.charge_description",
    "commitment_id": "d.commitment_id", "commitment_status": "d.commitment_status", "file": "s.file_name",
    "line": "d.line", "tags": "d.tags", "extra": "s.extra || d.extra",
}  # fmt: skip
_COSTS: Final = frozenset({"effective", "billed", "list", "contracted", "row_count"})
TAG_KEY: Final[LiteralString] = "{tag_key}"
# Charges with the tag, and what the totals have beside them: those without it.
_TAGGED: Final[LiteralString] = """(
    SELECT tenant_id, slice_id, day, provider, service, charge_category, currency, tag_value AS tag,
        billed, effective, list, contracted, row_count
    FROM cost_tags_daily WHERE tenant_id = $1 AND tag_key = {tag_key}
    UNION ALL
    SELECT tenant_id, slice_id, day, provider, service, charge_category, currency, NULL,
        -billed, -effective, -list, -contracted, -row_count
    FROM cost_tags_daily WHERE tenant_id = $1 AND tag_key = {tag_key}
    UNION ALL
    SELECT tenant_id, slice_id, day, provider, service, charge_category, currency, NULL,
        billed, effective, list, contracted, row_count
    FROM cost_services_daily WHERE tenant_id = $1)"""


@dataclass(frozen=True, slots=True)
class Source:
    """A table with its columns. `tags` is how many tags it can tell apart in one query."""

    name: str
    table: LiteralString
    columns: Mapping[str, LiteralString]
    measures: frozenset[str] = _COSTS
    tags: int = 0
    condition: LiteralString = ""
    single: bool = False

    def answers(self, plan: Plan) -> bool:
        """Check whether it has everything that a query names."""
        named = [*(field.name for field in plan.columns), *(condition.field.name for condition in plan.conditions)]
        plain = {name for name in named if not name.startswith(TAG_PREFIX)} - set(Grain)
        keys = len(plan.tag_keys)
        return plain <= self.columns.keys() | self.measures and (
            keys == self.tags if self.tags == 1 else keys <= self.tags
        )


_TAGS_DATASET: Final[dict[str, LiteralString]] = {**_SERVICES, "tag_key": "d.tag_key", "tag_value": "d.tag_value"}
_ALL_TAGS: Final = 100
SOURCES: Final[Mapping[DatasetName, Sequence[Source]]] = {
    DatasetName.COSTS: (
        Source("totals", "cost_totals_daily", _TOTALS, _COSTS | {"untagged"}),
        Source("services", "cost_services_daily", _SERVICES, _COSTS | {"untagged"}),
        Source("tags", _TAGGED, _SERVICES, tags=1),
        Source("daily", "cost_daily", _DAILY),
        Source("rows", "cost_rows", _ROWS, _COSTS | {"untagged"}, tags=_ALL_TAGS, single=True),
    ),
    DatasetName.RESOURCES: (
        Source("resources", "cost_resources_daily", _RESOURCES, _COSTS | {"quantity"}),
        Source(
            "rows", "cost_rows", _ROWS, _COSTS | {"quantity"}, tags=_ALL_TAGS, condition="d.resource_id <> ''",
            single=True,
        ),
    ),
    DatasetName.TAGS: (Source("tags", "cost_tags_daily", _TAGS_DATASET),),
    DatasetName.ROWS: (
        Source("rows", "cost_rows", _ROWS, _COSTS | {"quantity"}, tags=_ALL_TAGS, single=True),
    ),
}  # fmt: skip


def choose_source(plan: Plan) -> Source:
    """Return the smallest source that can answer; the rows can always."""
    return next(source for source in SOURCES[plan.dataset.name] if source.answers(plan))
