"""What can be asked of anomalies."""

from dragoman.operations import Binding, Effect, Operation, Page
from dragoman_costs.anomalies import models as m

_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

LIST = Operation(
    "anomaly.list", "List anomalies", m.ListAnomalies, Page[m.Anomaly], "read:costs", part_of="costs",
    description="Days on which a service of an account cost more or less than expected, with the regions, sub accounts "
    "and resources that caused it. Newest first; filter by status, account, provider, service, days and excess.",
    example={"status": "open"},
)  # fmt: skip
GET = Operation(
    "anomaly.get", "Show an anomaly", m.AnomalyRef, m.Anomaly, "read:costs", part_of="costs",
    description="Returns one anomaly with its causes, whose contributions add up to the excess.",
    example={"anomaly_id": _ID},
)  # fmt: skip
DECIDE = Operation(
    "anomaly.decide", "Acknowledge, resolve or dismiss an anomaly", m.DecideAnomaly, m.Anomaly,
    "write:remediation", Effect.WRITE, part_of="costs",
    description="`acknowledge` while it is looked into, `resolve` when it is dealt with, `dismiss` with a `reason` "
    "when it was none. One that is resolved or dismissed stays so.",
    example={"anomaly_id": _ID, "decision": "dismiss", "reason": "the load test of Tuesday"},
)  # fmt: skip

BINDINGS = (
    Binding("GET", "/api/anomalies", LIST),
    Binding("GET", "/api/anomalies/{anomaly_id}", GET),
    Binding("POST", "/api/anomalies/{anomaly_id}/decide", DECIDE),
)
