"""Questions in words, and as queries: for people who learn the language, and for models that write it."""

from typing import Final

from dragoman_costs.query.models import QueryExample

EXAMPLES: Final[list[QueryExample]] = [
    QueryExample(
        question="What did each provider cost, month by month, in 2026?",
        query={
            "dataset": "costs", "measures": ["effective", "billed"], "dimensions": ["provider"], "grain": "month",
            "start_date": "2026-01-01", "end_date": "2026-12-31",
        },
    ),
    QueryExample(
        question="Which ten services cost most in October?",
        query={
            "dataset": "costs", "dimensions": ["service"], "start_date": "2026-10-01", "end_date": "2026-10-31",
            "limit": 10,
        },
    ),
    QueryExample(
        question="How much of the computing cost has no team?",
        query={
            "dataset": "costs", "dimensions": ["tag:team"],
            "filters": [{"field": "service", "op": "contains", "value": "compute"}],
            "order_by": [{"field": "effective", "direction": "desc"}],
        },
    ),
    QueryExample(
        question="Which resources cost more than 100 this week?",
        query={
            "dataset": "resources", "dimensions": ["resource", "resource_name", "service"],
            "measures": ["effective", "quantity"], "start_date": "2026-11-16",
            "filters": [{"field": "effective", "op": "gt", "value": "100"}],
        },
    ),
    QueryExample(
        question="Which rows of which file are behind the taxes of October?",
        query={
            "dataset": "rows", "filters": [{"field": "charge_category", "op": "eq", "value": "Tax"}],
            "start_date": "2026-10-01", "end_date": "2026-10-31",
        },
    ),
]  # fmt: skip
