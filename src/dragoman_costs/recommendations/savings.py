"""What was found, approved, executed and realised, by currency."""

from collections import defaultdict
from decimal import Decimal
from typing import Final

from dragoman.context import Caller
from dragoman.infra.db import scope_of
from dragoman_costs.recommendations import models as m
from dragoman_costs.recommendations.findings import Kind
from dragoman_costs.recommendations.realised import BY_COST, DAYS_NEEDED, Day, measure
from dragoman_costs.recommendations.store import RecommendationStore, Record
from dragoman_costs.recommendations.store_executing import ExecutingStore

_NOTHING: Final = Decimal(0)


class SavingsService:
    """Adds savings up, and never two currencies."""

    def __init__(self, store: RecommendationStore, executing: ExecutingStore) -> None:
        self._store = store
        self._executing = executing

    async def report(self, caller: Caller, request: m.ShowSavings) -> m.SavingsReport:
        """Return the sums of all recommendations, and each executed one with what bills say since."""
        rows = await self._executing.list_executed(scope_of(caller), request.limit)
        measured = [await self._measure(caller, row) for row in rows]
        return m.SavingsReport(totals=await self._totals(caller, measured), executed=measured)

    async def _totals(self, caller: Caller, measured: list[m.Measured]) -> list[m.Savings]:
        sums: dict[str, dict[str, tuple[int, Decimal]]] = defaultdict(dict)
        for currency, status, count, saving in await self._store.sum_by_status(scope_of(caller)):
            sums[currency][status] = (count, saving)
        totals: list[m.Savings] = []
        for currency, by_status in sums.items():
            own = [one for one in measured if one.currency == currency]
            found, approved, executed = (
                by_status.get(status, (0, _NOTHING)) for status in ("pending", "approved", "executed")
            )
            known = [one.realised_monthly for one in own if one.realised_monthly is not None]
            totals.append(
                m.Savings(
                    currency=currency, found=found[1], found_count=found[0], approved=approved[1],
                    approved_count=approved[0], executed=executed[1], executed_count=executed[0],
                    realised=sum(known, _NOTHING), measured_count=len(known),
                    too_early_count=sum(one.state == "too_early" for one in own),
                )
            )  # fmt: skip
        return totals

    async def _measure(self, caller: Caller, row: Record) -> m.Measured:
        scope = scope_of(caller)
        days = {
            one["day"]: Day(one["amount"], one["quantity"], one["list"])
            for one in await self._executing.list_days(scope, row)
        }
        billed = await self._executing.list_billed_days(scope, row)
        told = measure(Kind(row["type"]), row["executed_at"].date(), days, billed)
        state = "no_data" if told is None else "measured" if told.a_day is not None else "too_early"
        return m.Measured(
            recommendation_id=row["id"], title=row["title"], type=row["type"], currency=row["currency"],
            executed_at=row["executed_at"], state=state, days=told.days if told else 0, days_needed=DAYS_NEEDED,
            estimated_monthly=row["saving"], realised_monthly=told.a_month if told else None,
            realised_to_date=told.to_date if told else None, before_daily=told.before if told else None,
            after_daily=told.after if told else None, method=told.method if told else BY_COST,
        )  # fmt: skip
