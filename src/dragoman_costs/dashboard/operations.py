"""What can be looked at."""

from typing import Final

from dragoman.operations import Binding, Operation
from dragoman_costs.dashboard import models as m

_READ: Final = "read:costs"
_TIME: Final = {"start_date": "2026-11-01", "end_date": "2026-11-18"}
DASHBOARD = Operation(
    "costs.dashboard", "Look at costs on one page", m.LookAtCosts, m.Dashboard, _READ, part_of="costs",
    description="Totals beside the time before, trend, forecast with an interval of 80 %, shares of providers, "
    "services and accounts, what moved, what is untagged, budgets, anomalies and savings. Unset, the month of the "
    "last day that has data. Amounts stand apart by currency.",
    example=_TIME,
)  # fmt: skip
OVERVIEW = Operation(
    "costs.overview", "Show total costs with their forecast", m.LookAtCosts, m.Overview, _READ, part_of="costs",
    description="Totals of a time beside those of the time before, by currency, with the outlook for the month.",
    example=_TIME,
)  # fmt: skip
TREND = Operation(
    "costs.trend", "Show costs step by step", m.LookAtCosts, m.CostTrend, _READ, part_of="costs",
    description="A point for every day, week or month of a time, and what each provider adds to it.", example=_TIME,
)  # fmt: skip
BY_PROVIDER = Operation(
    "costs.by_provider", "Show what each provider costs", m.RankCosts, m.Breakdown, _READ, part_of="costs",
    description="The share of each provider in the total, beside the time before.", example=_TIME,
)  # fmt: skip
BY_SERVICE = Operation(
    "costs.by_service", "Show what each service costs", m.RankCosts, m.Breakdown, _READ, part_of="costs",
    description="The share of each service in the total, beside the time before; the largest come first.",
    example=_TIME,
)  # fmt: skip
BINDINGS: Final = (
    Binding("GET", "/api/dashboard", DASHBOARD),
    Binding("GET", "/api/dashboard/overview", OVERVIEW),
    Binding("GET", "/api/dashboard/cost-trend", TREND),
    Binding("GET", "/api/dashboard/by-provider", BY_PROVIDER),
    Binding("GET", "/api/dashboard/by-service", BY_SERVICE),
)
