"""Rules of rates: they are the tenant's own, and one is set once for its currencies and period."""

from collections.abc import Callable
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import FieldError, InvalidInput, NotFound
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman_costs.rates import models as m
from dragoman_costs.rates.store import RateStore


class RateService:
    """Keeps the rates by which a tenant converts."""

    def __init__(self, store: RateStore, *, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._new_id = new_id

    async def set(self, caller: Caller, request: m.SetRates) -> m.RatesSet:
        """Set rates, all or none.

        Raises:
            InvalidInput: one is there twice.
        """
        keys = [(rate.from_currency, rate.to_currency, rate.period) for rate in request.rates]
        if twice := [place for place, key in enumerate(keys) if key in keys[:place]]:
            raise InvalidInput(
                [FieldError(field=f"rates.{place}", message="the same currencies and period again") for place in twice]
            )
        given = [
            {
                "id": self._new_id(),
                "from_currency": rate.from_currency,
                "to_currency": rate.to_currency,
                "grain": rate.grain,
                "day": rate.first_day().isoformat(),
                "rate": str(rate.rate),
            }
            for rate in request.rates
        ]
        rows = await self._store.set(scope_of(caller), given, caller.subject)
        return m.RatesSet(rates=[m.Rate.model_validate(row) for row in rows])

    async def list(self, caller: Caller, request: m.ListRates) -> Page[m.Rate]:
        """Return rates, the newest first."""
        rows = await self._store.list_page(
            scope_of(caller), request.limit + 1, request.cursor, request.from_currency, request.to_currency
        )
        return page([m.Rate.model_validate(row) for row in rows], request.limit)

    async def remove(self, caller: Caller, request: m.RateRef) -> m.RemovedRate:
        """Remove a rate.

        Raises:
            NotFound: the tenant has no such rate.
        """
        if not await self._store.remove(scope_of(caller), request.rate_id):
            raise NotFound("rate", request.rate_id)
        return m.RemovedRate(id=request.rate_id)
