"""Rules of dashboards: which days are looked at, beside which ones, and that currencies stay apart."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from dragoman.context import Caller
from dragoman.errors import InvalidInput
from dragoman.infra.db import Scope, scope_of
from dragoman_costs.dashboard import figures
from dragoman_costs.dashboard import models as m
from dragoman_costs.dashboard.sections import Sections
from dragoman_costs.dashboard.store import DashboardStore, Reach, Record
from dragoman_costs.forecast import LONGEST_HISTORY
from dragoman_costs.query.errors import RateMissing
from dragoman_costs.query.store import CostReader

_DAY: Final = timedelta(days=1)
_LONGEST: Final = timedelta(days=3 * 366)
_TOO_LONG: Final = f"at most {_LONGEST.days} days are shown at once; use costs_query for more"
_MOST_SHOWN: Final = 10
_ZERO: Final = Decimal(0)
# What one part of a page says of its own: budgets with their state.
Budgets = Callable[[Caller], Awaitable[Sequence[Mapping[str, Any]]]]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The days that are looked at, and sums by day and provider of these, of those before, and of a longer past."""

    as_of: date
    synthetic: bool
    period: m.Span
    previous: m.Span
    reach: Reach
    rows: Sequence[Record]
    foreseeable: bool

    @property
    def look(self) -> dict[str, Any]:
        """Return the fields of `Look`."""
        return {"period": self.period, "previous": self.previous, "as_of": self.as_of, "synthetic": self.synthetic}

    def within(self, span: m.Span) -> dict[str, list[Record]]:
        """Return the rows of some days by currency."""
        return figures.by_currency(row for row in self.rows if span.start_date <= row["day"] <= span.end_date)


class DashboardService:
    """Shows the spend of a tenant."""

    def __init__(
        self,
        store: DashboardStore,
        reader: CostReader,
        *,
        budgets: Budgets,
        highlights: Sections,
        today: Callable[[], date],
    ) -> None:
        self._store = store
        self._reader = reader
        self._budgets = budgets
        self._highlights = highlights
        self._today = today

    async def dashboard(self, caller: Caller, request: m.LookAtCosts) -> m.Dashboard:
        """Return one page for all.

        Raises:
            RateMissing: a conversion was asked for, and some day has no rate.
        """
        scope = scope_of(caller)
        async with self._seen(scope, request) as seen:
            budgets = [dict(one) for one in await self._budgets(caller)]
            until = seen.period.end_date if seen else None
            anomalies = await self._highlights.anomalies(caller, request, until=until)
            savings = await self._highlights.savings(caller, request)
            if seen is None:
                return m.Dashboard(
                    period=None, previous=None, as_of=None, synthetic=False, granularity=request.granularity,
                    currencies=[], budgets=budgets, anomalies=anomalies, savings=savings,
                )  # fmt: skip
            services = await self._services(scope, seen)
            rows = await self._store.compare_accounts(scope, seen.reach, seen.period.start_date)
            accounts = _shared(seen, rows)
        now = seen.within(seen.period)
        pages: list[m.CurrencyPage] = []
        for totals in self._totals(seen):
            providers = self._providers(seen)[totals.currency]
            moving = services.get(totals.currency, [])
            pages.append(
                m.CurrencyPage(
                    **dict(totals),
                    trend=figures.points(now.get(totals.currency, []), request.granularity, seen.period),
                    by_provider=providers[:_MOST_SHOWN],
                    by_service=moving[:_MOST_SHOWN],
                    by_account=accounts.get(totals.currency, [])[:_MOST_SHOWN],
                    movers=figures.movers(moving, _MOST_SHOWN),
                )
            )
        return m.Dashboard(
            **seen.look, granularity=request.granularity, currencies=pages, budgets=budgets,
            anomalies=anomalies, savings=savings,
        )  # fmt: skip

    async def overview(self, caller: Caller, request: m.LookAtCosts) -> m.Overview:
        """Return totals, with their forecast."""
        async with self._seen(scope_of(caller), request) as seen:
            if seen is None:
                return m.Overview(period=None, previous=None, as_of=None, synthetic=False, totals=[])
        return m.Overview(**seen.look, totals=self._totals(seen))

    async def cost_trend(self, caller: Caller, request: m.LookAtCosts) -> m.CostTrend:
        """Return spend step by step."""
        async with self._seen(scope_of(caller), request) as seen:
            if seen is None:
                return m.CostTrend(
                    period=None, previous=None, as_of=None, synthetic=False, granularity=request.granularity, trends=[]
                )
        trends = [
            m.Trend(currency=currency, points=figures.points(rows, request.granularity, seen.period))
            for currency, rows in seen.within(seen.period).items()
        ]
        return m.CostTrend(**seen.look, granularity=request.granularity, trends=trends)

    async def by_provider(self, caller: Caller, request: m.RankCosts) -> m.Breakdown:
        """Return what each provider adds."""
        async with self._seen(scope_of(caller), request) as seen:
            found = self._providers(seen) if seen else {}
        return _breakdown(seen, found, request.limit)

    async def by_service(self, caller: Caller, request: m.RankCosts) -> m.Breakdown:
        """Return what each service adds."""
        scope = scope_of(caller)
        async with self._seen(scope, request) as seen:
            found = await self._services(scope, seen) if seen else {}
        return _breakdown(seen, found, request.limit)

    @asynccontextmanager
    async def _seen(self, scope: Scope, request: m.LookAtCosts) -> AsyncGenerator[_Seen | None]:
        """Read what every part needs; all that is read while it is open is of the same moment."""
        async with self._reader.snapshot(scope):
            last, synthetic = await self._store.find_last_day(scope, request.provider, request.account_id)
            if last is None:
                yield None
                return
            end = request.end_date or max(last, request.start_date or last)
            start = request.start_date or end.replace(day=1)
            days = end - start + _DAY
            if not _DAY <= days <= _LONGEST:
                raise InvalidInput.of("start_date", _TOO_LONG if days > _LONGEST else "must not be after the last day")
            previous = m.Span(start_date=start - days, end_date=start - _DAY)
            reach = Reach(previous.start_date, end, request.provider, request.account_id, request.currency)
            longer = replace(reach, start=min(reach.start, last - timedelta(days=LONGEST_HISTORY)), end=max(end, last))
            foreseeable = await self._check_rates(scope, reach, longer)
            yield _Seen(
                last, synthetic, m.Span(start_date=start, end_date=end), previous, reach,
                await self._store.list_days(scope, longer if foreseeable else reach), foreseeable,
            )  # fmt: skip

    async def _check_rates(self, scope: Scope, reach: Reach, longer: Reach) -> bool:
        """Check that all that is shown can be converted; return whether the past before it can be, too."""
        if reach.currency is None:
            return True
        missing = await self._store.list_unrated(scope, longer)
        shown = [(currency, day) for currency, day in missing if reach.start <= day <= reach.end]
        if shown:
            raise RateMissing(reach.currency, shown)
        return not missing

    def _totals(self, seen: _Seen) -> list[m.Totals]:
        now, before = seen.within(seen.period), seen.within(seen.previous)
        # A day that is not over is known in part.
        over = min(seen.as_of, self._today() - _DAY)
        looks_ahead = seen.foreseeable and seen.period.end_date >= over
        past = seen.within(m.Span(start_date=date.min, end_date=over)) if looks_ahead else {}
        found: list[m.Totals] = []
        for currency in sorted({*now, *before}):
            rows = now.get(currency, [])
            total, untagged = figures.add_up(rows, "effective"), figures.add_up(rows, "untagged")
            daily: dict[date, Decimal] = {}
            for row in past.get(currency, []):
                daily[row["day"]] = daily.get(row["day"], _ZERO) + row["effective"]
            first = over.replace(day=1)
            found.append(
                m.Totals(
                    **figures.change(total, figures.add_up(before.get(currency, []), "effective")),
                    currency=currency,
                    billed=figures.add_up(rows, "billed"),
                    untagged=untagged,
                    untagged_percent=figures.percent(untagged, total),
                    row_count=sum(row["row_count"] for row in rows),
                    month=figures.outlook(daily, first, figures.month_end(first), over) if daily else None,
                    next_30_days=figures.next_days(daily, over) if daily else None,
                )
            )
        return found

    def _providers(self, seen: _Seen) -> dict[str, list[m.Share]]:
        sums: dict[tuple[str, str], Record] = {}
        for span, name in ((seen.period, "total"), (seen.previous, "previous")):
            for currency, rows in seen.within(span).items():
                for row in rows:
                    empty = {"currency": currency, "name": row["provider"], "total": _ZERO, "previous": _ZERO}
                    one = sums.setdefault((currency, row["provider"]), empty)
                    one[name] += row["effective"]
        return _shared(seen, list(sums.values()))

    async def _services(self, scope: Scope, seen: _Seen) -> dict[str, list[m.Share]]:
        return _shared(seen, await self._store.compare_services(scope, seen.reach, seen.period.start_date))


def _shared(seen: _Seen, rows: Sequence[Record]) -> dict[str, list[m.Share]]:
    wholes = {currency: figures.add_up(some, "effective") for currency, some in seen.within(seen.period).items()}
    return {
        currency: figures.shares(some, wholes.get(currency, _ZERO))
        for currency, some in figures.by_currency(rows).items()
    }


def _breakdown(seen: _Seen | None, found: Mapping[str, Sequence[m.Share]], limit: int) -> m.Breakdown:
    look: dict[str, Any] = {"period": None, "previous": None, "as_of": None, "synthetic": False}
    listed = [m.Shares(currency=currency, items=list(items[:limit])) for currency, items in found.items()]
    return m.Breakdown(**(seen.look if seen else look), shares=listed)
