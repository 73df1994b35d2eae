"""Which operation of costs answers at which address: each part lists its own."""

from dragoman.operations import Binding
from dragoman_costs.accounts import operations as accounts
from dragoman_costs.anomalies import operations as anomalies
from dragoman_costs.budgets import operations as budgets
from dragoman_costs.dashboard import operations as dashboard
from dragoman_costs.highlights import operations as highlights
from dragoman_costs.imports import operations as imports
from dragoman_costs.query import operations as query
from dragoman_costs.rates import operations as rates
from dragoman_costs.recommendations import operations as recommendations
from dragoman_costs.synthetic import operations as synthetic

BINDINGS: tuple[Binding, ...] = (
    *accounts.BINDINGS,
    *imports.BINDINGS,
    *query.BINDINGS,
    *rates.BINDINGS,
    *dashboard.BINDINGS,
    *budgets.BINDINGS,
    *anomalies.BINDINGS,
    *highlights.BINDINGS,
    *recommendations.BINDINGS,
    *synthetic.BINDINGS,
)
