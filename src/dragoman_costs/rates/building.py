"""Puts rates together."""

from dragoman.infra.ids import new_id
from dragoman.plugin import Platform, Vertical
from dragoman_costs.rates import operations
from dragoman_costs.rates.service import RateService
from dragoman_costs.rates.store import RateStore


def build_rates(platform: Platform) -> Vertical:
    """Bind the operations of rates."""
    service = RateService(RateStore(platform.db), new_id=new_id)
    platform.handlers.add(operations.SET, service.set)
    platform.handlers.add(operations.LIST, service.list)
    platform.handlers.add(operations.REMOVE, service.remove)
    return Vertical()
