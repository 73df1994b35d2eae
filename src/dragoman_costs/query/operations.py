"""What can be asked about costs."""

from typing import Final

from dragoman.operations import Binding, Operation
from dragoman_costs.query import models as m

READ: Final = "read:costs"
QUERY = Operation(
    "costs.query", "Ask what clouds cost", m.CostQuery, m.CostResult, READ, part_of="costs",
    description="Sums billing data by provider, account, service, region, tag, resource, day, week or month, or shows "
    "single rows with their file and line. Ask costs_schema for all names. Amounts are decimal strings, kept apart by "
    "currency. A query that would read too much is refused with a hint how to narrow it.",
    example={
        "dataset": "costs", "measures": ["effective"], "dimensions": ["service"], "grain": "month",
        "filters": [{"field": "provider", "op": "eq", "value": "AWS"}], "start_date": "2026-10-01",
    },
)  # fmt: skip
SCHEMA = Operation(
    "costs.schema", "Describe what can be asked about costs", m.DescribeCosts, m.CostSchema, READ, part_of="costs",
    description="All datasets with their dimensions, measures and operators, the JSON schema of a query, and examples.",
)  # fmt: skip
BINDINGS: Final = (Binding("POST", "/api/costs/query", QUERY), Binding("GET", "/api/costs/schema", SCHEMA))
