"""Rules of anomalies: they are looked for after each import, stay one event however often, and are decided once."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from dragoman.blocking import Threads
from dragoman.context import Caller
from dragoman.errors import Conflict, InvalidInput, NotFound
from dragoman.infra.db import Scope, scope_of
from dragoman.operations import Page, page
from dragoman.plugin import Publish
from dragoman_costs.anomalies import models as m
from dragoman_costs.anomalies.causes import explain
from dragoman_costs.anomalies.detection import DEFAULT, Event, Shape, detect
from dragoman_costs.anomalies.store import AnomalyStore, Record
from dragoman_costs.money import plain

# An anomaly of the last days is news; one in the history of a first import is not.
_NEWS_DAYS: Final = 7
# How far back is looked, on every look.
_PAST_DAYS: Final = 200
_DIMENSIONS: Final[tuple[m.Dimension, ...]] = ("resource", "sub_account", "region")
_CENT: Final = Decimal("0.01")
_AFTER: Final = {
    m.AnomalyDecision.ACKNOWLEDGE: m.AnomalyStatus.ACKNOWLEDGED,
    m.AnomalyDecision.RESOLVE: m.AnomalyStatus.RESOLVED,
    m.AnomalyDecision.DISMISS: m.AnomalyStatus.DISMISSED,
}
_FROM: Final = {
    m.AnomalyDecision.ACKNOWLEDGE: {m.AnomalyStatus.OPEN},
    m.AnomalyDecision.RESOLVE: {m.AnomalyStatus.OPEN, m.AnomalyStatus.ACKNOWLEDGED},
    m.AnomalyDecision.DISMISS: {m.AnomalyStatus.OPEN, m.AnomalyStatus.ACKNOWLEDGED},
}
_NEED_ATTENTION: Final = [m.AnomalyStatus.OPEN, m.AnomalyStatus.ACKNOWLEDGED]
# Account, provider, service, currency.
Series = tuple[UUID, str, str, str]


class AnomalyDecided(Conflict):
    """The anomaly was decided already."""

    def __init__(self, status: str) -> None:
        super().__init__(f"the anomaly is {status} already", reason="ANOMALY_DECIDED", status=status)


class AnomalyService:
    """Finds anomalies, and keeps what people make of them."""

    def __init__(self, store: AnomalyStore, *, publish: Publish, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._publish = publish
        self._new_id = new_id
        self._threads = Threads("anomalies", 2, share=1)

    async def search(self, scope: Scope) -> int:
        """Look for anomalies in all spend of a tenant, and return how many there are. Safe to repeat."""
        newest = await self._store.find_newest_day(scope)
        if newest is None:
            return 0
        since = newest - timedelta(days=_PAST_DAYS)
        rows = await self._store.list_series(scope, since)
        found = await self._threads.run(scope.tenant, _detect_all, rows)
        known = {
            (*(one[name] for name in ("account_id", "provider", "service", "currency")), one["day"]): one["id"]
            for one in await self._store.list_known(scope, since)
        }
        kept: list[UUID] = []
        for series, event in found:
            earlier = known.get((*series, event.day))
            anomaly_id = earlier or self._new_id()
            kept.append(anomaly_id)
            values = await self._explained(scope, series, event)
            await self._store.put(scope, [anomaly_id, *series, *values])
            if earlier is None and (newest - event.day).days <= _NEWS_DAYS:
                await self._tell(scope, anomaly_id, series, event)
        await self._store.resolve_others(scope, since, kept)
        return len(kept)

    async def list(self, caller: Caller, query: m.ListAnomalies) -> Page[m.Anomaly]:
        """Return anomalies, newest first."""
        filters = (
            [query.status] if query.status else None, query.account_id, query.provider, query.service, query.since,
            query.until, query.least_excess,
        )  # fmt: skip
        rows = await self._store.list_page(scope_of(caller), query.limit + 1, query.cursor, filters)
        return page([m.Anomaly.model_validate(row) for row in rows], query.limit)

    async def get(self, caller: Caller, ref: m.AnomalyRef) -> m.Anomaly:
        """Return one anomaly.

        Raises:
            NotFound: the tenant has none with this id.
        """
        return m.Anomaly.model_validate(await self._get(caller, ref.anomaly_id))

    async def decide(self, caller: Caller, request: m.DecideAnomaly) -> m.Anomaly:
        """Keep what a person makes of an anomaly.

        Raises:
            AnomalyDecided: it is resolved, dismissed, or acknowledged already.
            InvalidInput: it is dismissed without a reason.
        """
        if request.decision is m.AnomalyDecision.DISMISS and request.reason is None:
            raise InvalidInput.of("reason", "say why it is dismissed")
        row = await self._get(caller, request.anomaly_id, lock=True)
        if row["status"] not in _FROM[request.decision]:
            raise AnomalyDecided(row["status"])
        decided = await self._store.decide(
            scope_of(caller), request.anomaly_id, _AFTER[request.decision], request.reason, caller.subject
        )
        return m.Anomaly.model_validate(decided)

    async def list_open(
        self,
        caller: Caller,
        limit: int,
        *,
        provider: str | None = None,
        account_id: UUID | None = None,
        since: date | None = None,
        until: date | None = None,
    ) -> Sequence[m.Anomaly]:
        """Return the newest anomalies that need attention."""
        filters = (_NEED_ATTENTION, account_id, provider, None, since, until, None)
        rows = await self._store.list_page(scope_of(caller), limit, None, filters)
        return [m.Anomaly.model_validate(row) for row in rows]

    async def sum_open(self, caller: Caller) -> Sequence[m.AnomalyTotals]:
        """Return by currency how many anomalies need attention, and what they cost too much."""
        return [m.AnomalyTotals.model_validate(row) for row in await self._store.sum_open(scope_of(caller))]

    async def _tell(self, scope: Scope, anomaly_id: UUID, series: Series, event: Event) -> None:
        account_id, provider, service, currency = series
        if scope.tenant is None:
            return
        data = {
            "anomaly_id": str(anomaly_id), "account_id": str(account_id), "provider": provider, "service": service,
            "currency": currency, "day": event.day.isoformat(), "shape": event.shape.value,
            "expected": plain(_money(event.expected)), "actual": plain(_money(event.actual)),
        }  # fmt: skip
        await self._publish(scope.tenant, "cost.anomaly", subject=str(anomaly_id), data=data)

    async def _get(self, caller: Caller, anomaly_id: UUID, *, lock: bool = False) -> Record:
        row = await self._store.find(scope_of(caller), anomaly_id, lock=lock)
        if row is None:
            raise NotFound("anomaly", anomaly_id)
        return row

    async def _explained(self, scope: Scope, series: Series, event: Event) -> Sequence[Any]:
        expected = _money(event.expected)
        usual = [event.day - timedelta(weeks=back) for back in range(1, 5)]
        rows = {
            dimension: await self._store.list_causes(scope, dimension, series, event.day, usual)
            for dimension in _DIMENSIONS
        }
        # Every row has a region, if an empty one; not every row has a resource.
        actual = sum((row["now"] for row in rows["region"]), Decimal(0))
        causes = [
            m.Cause(dimension=dimension, name=one.name, expected=one.expected, actual=one.actual, excess=one.excess)
            for dimension in _DIMENSIONS
            for one in explain(expected, actual, _amounts(rows[dimension], "now"), _amounts(rows[dimension], "before"))
        ]
        shown = [cause.model_dump(mode="json") for cause in causes]
        return [
            event.day, event.last_day, event.shape.value, expected, actual, _money(event.total_excess),
            _money(event.score),
            _title(series, event, causes), shown,
        ]  # fmt: skip


def _detect_all(rows: Sequence[Record]) -> list[tuple[Series, Event]]:
    """Return the anomalies of all series. A drop on the last day of an account is left out: that bill is incomplete."""
    found: list[tuple[Series, Event]] = []
    first_of: dict[UUID, date] = {}
    last_of: dict[UUID, date] = {}
    for row in rows:
        account, day = row["account_id"], row["day"]
        first_of[account] = min(first_of.get(account, day), day)
        last_of[account] = max(last_of.get(account, day), day)
    keyed = groupby(rows, key=lambda row: (row["account_id"], row["provider"], row["service"], row["currency"]))
    for series, days in keyed:
        amounts = {row["day"]: float(row["amount"]) for row in days}
        first, last = min(amounts), last_of[series[0]]
        filled = [amounts.get(first + timedelta(days=index), 0.0) for index in range((last - first).days + 1)]
        begins = (first - first_of[series[0]]).days >= DEFAULT.quiet_days
        events = detect(first, filled, begins=begins)
        found += [(series, event) for event in events if event.day != last or event.shape is not Shape.DROP]
    return found


def _amounts(rows: Sequence[Record], column: str) -> dict[str, Decimal]:
    return {row["name"]: row[column] for row in rows}


def _money(amount: float) -> Decimal:
    return Decimal(str(amount)).quantize(_CENT)


def _title(series: Series, event: Event, causes: Sequence[m.Cause]) -> str:
    _, _, service, currency = series
    if event.shape is Shape.NEW:
        return f"{service} is new: {event.actual:,.2f} {currency} a day"[:300]
    share = f" ({abs(event.excess) / event.expected:.0%})" if event.expected > 0 else ""
    direction = "more" if event.excess > 0 else "less"
    named = next((one.name for one in causes if not one.name.startswith("(")), None)
    because = f", mostly {named}" if named else ""
    return f"{service} cost {abs(event.excess):,.2f} {currency}{share} {direction} than expected{because}"[:300]
