"""What can be done with budgets and their alerts."""

from typing import Final

from dragoman.operations import Binding, Effect, ListInput, Operation, Page
from dragoman_costs.budgets import models as m

_READ, _MANAGE = "read:costs", "manage:accounts"
_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
CREATE = Operation(
    "budget.create", "Set a budget", m.CreateBudget, m.Budget, _MANAGE, Effect.WRITE, part_of="costs",
    description="For all costs, or those of a provider, an account, a service or a tag, in a month, a quarter or a "
    "year. Alerts are raised when spend or its forecast reaches a threshold, once in each period.",
    example={"name": "Production", "amount": "1000", "currency": "USD", "scope": {"service": "Compute"}},
)  # fmt: skip
LIST = Operation("budget.list", "List budgets with their state", ListInput, Page[m.Budget], _READ, part_of="costs")
GET = Operation(
    "budget.get", "Show a budget", m.BudgetRef, m.Budget, _READ, part_of="costs", example={"budget_id": _ID},
    description="With its state as it is now: what is spent in this period, what is expected, and the overrun.",
)  # fmt: skip
UPDATE = Operation(
    "budget.update", "Change a budget", m.UpdateBudget, m.Budget, _MANAGE, Effect.WRITE, part_of="costs",
    example={"budget_id": _ID, "amount": "1200"},
)  # fmt: skip
REMOVE = Operation(
    "budget.remove", "Remove a budget with its alerts", m.BudgetRef, m.RemovedBudget, _MANAGE, Effect.DESTRUCTIVE,
    part_of="costs", example={"budget_id": _ID},
)  # fmt: skip
ALERTS = Operation(
    "budget_alert.list", "List alerts of budgets", m.ListAlerts, Page[m.Alert], _READ, part_of="costs",
    description="Thresholds that spend or its forecast has reached, the newest first.", example={"open": True},
)  # fmt: skip
ACKNOWLEDGE = Operation(
    "budget_alert.acknowledge", "Acknowledge an alert of a budget", m.AlertRef, m.Alert, _MANAGE, Effect.WRITE,
    part_of="costs", description="Says that a person has seen it; programs cannot.", example={"alert_id": _ID},
)  # fmt: skip
BINDINGS: Final = (
    Binding("POST", "/api/budgets", CREATE, 201),
    Binding("GET", "/api/budgets", LIST),
    Binding("GET", "/api/budgets/{budget_id}", GET),
    Binding("PATCH", "/api/budgets/{budget_id}", UPDATE),
    Binding("DELETE", "/api/budgets/{budget_id}", REMOVE),
    Binding("GET", "/api/budget-alerts", ALERTS),
    Binding("POST", "/api/budget-alerts/{alert_id}/acknowledge", ACKNOWLEDGE),
)
