"""The operation of the demo."""

from dragoman.operations import Binding, Effect, Operation
from dragoman_costs.synthetic import models as m

DEMO = Operation(
    "costs.demo", "Load a demo: months of made-up spend of several clouds", m.LoadDemo, m.DemoStarted,
    "manage:accounts", Effect.WRITE, long=True, part_of="costs",
    description="Makes accounts that are labelled synthetic, with spend, anomalies and recommendations. It runs as a "
    "task: follow `task_id`. Doing it again on the same day changes nothing; `remove` takes all of it away.",
    example={"months": 6},
)  # fmt: skip

BINDINGS = (Binding("POST", "/api/costs/demo", DEMO, 202),)
