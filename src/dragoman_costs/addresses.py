"""Which operation of costs answers at which address: each part lists its own."""

from dragoman.operations import Binding
from dragoman_costs.accounts import operations as accounts

BINDINGS: tuple[Binding, ...] = (*accounts.BINDINGS,)
