"""The parts of a dashboard about anomalies and savings."""

from dragoman.operations import Binding, Operation
from dragoman_costs.highlights import models as m

ANOMALIES = Operation(
    "costs.anomalies", "Show the anomalies that need attention", m.LookAtAnomalies, m.AnomalyHighlights, "read:costs",
    part_of="costs",
    description="Open and acknowledged anomalies with their causes, the newest first, and what they cost too much. Use "
    "`anomaly_list` for all of them, page by page.",
    example={"limit": 5},
)  # fmt: skip
RECOMMENDATIONS = Operation(
    "costs.recommendations", "Show the largest savings, and what became of others", m.LookAtSavings,
    m.SavingHighlights, "read:recommendations", part_of="costs",
    description="Pending recommendations, the largest saving first, with sums of what was found, approved, executed "
    "and realised. Use `recommendation_list` for all of them, page by page.",
    example={"limit": 5},
)  # fmt: skip

BINDINGS = (
    Binding("GET", "/api/dashboard/anomalies", ANOMALIES),
    Binding("GET", "/api/dashboard/recommendations", RECOMMENDATIONS),
)
