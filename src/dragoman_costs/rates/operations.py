"""What can be done with rates of currencies."""

from typing import Final

from dragoman.operations import Binding, Effect, Operation, Page
from dragoman_costs.rates import models as m

_READ, _MANAGE = "read:costs", "manage:accounts"
_ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
SET = Operation(
    "cost_rate.set", "Set rates by which costs are converted", m.SetRates, m.RatesSet, _MANAGE, Effect.WRITE,
    part_of="costs",
    description="An amount in from_currency on a day of the period, times rate, is one in to_currency. A rate for the "
    "same currencies and period is replaced. Rates are never inverted or chained.",
    example={
        "rates": [{"from_currency": "USD", "to_currency": "EUR", "period": "2026-10", "rate": "0.92"}],
    },
)  # fmt: skip
LIST = Operation(
    "cost_rate.list", "List rates by which costs are converted", m.ListRates, Page[m.Rate], _READ, part_of="costs",
)  # fmt: skip
REMOVE = Operation(
    "cost_rate.remove", "Remove a rate", m.RateRef, m.RemovedRate, _MANAGE, Effect.DESTRUCTIVE, part_of="costs",
    example={"rate_id": _ID},
)  # fmt: skip
BINDINGS: Final = (
    Binding("POST", "/api/cost-rates", SET),
    Binding("GET", "/api/cost-rates", LIST),
    Binding("DELETE", "/api/cost-rates/{rate_id}", REMOVE),
)
