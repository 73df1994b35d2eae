"""Rules of budgets: an alert is raised once for each period and threshold, and a person acknowledges it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import Forbidden, NotFound, Stale
from dragoman.infra.db import Database, Scope, scope_of
from dragoman.operations import ListInput, Page, page
from dragoman.plugin import Publish
from dragoman_costs.budgets import models as m
from dragoman_costs.budgets.evaluation import evaluate, known_since, reached, span_of
from dragoman_costs.budgets.store import BudgetStore, Covered, Record

_EVENT: Final = "budget.exceeded"
_MOST_SHOWN: Final = 50


class BudgetService:
    """Keeps budgets, and says how far each is used up."""

    def __init__(
        self,
        store: BudgetStore,
        db: Database,
        *,
        publish: Publish,
        new_id: Callable[[], UUID],
        today: Callable[[], date],
    ) -> None:
        self._store = store
        self._db = db
        self._publish = publish
        self._new_id = new_id
        self._today = today

    async def create(self, caller: Caller, new: m.CreateBudget) -> m.Budget:
        """Set a budget, and hold it against what was spent already."""
        given = dict(new) | _covered(new.scope)
        state = await self._state(scope_of(caller), given)
        row = await self._store.add(scope_of(caller), self._new_id(), _values(given, state), caller.subject)
        await self._raise(scope_of(caller), row, state)
        return _shown(row)

    async def list(self, caller: Caller, request: ListInput) -> Page[m.Budget]:
        """Return budgets, the newest first, with their state of the last evaluation."""
        rows = await self._store.list_page(scope_of(caller), request.limit + 1, request.cursor)
        return page([_shown(row) for row in rows], request.limit)

    async def list_states(self, caller: Caller) -> Sequence[Mapping[str, Any]]:
        """Return what a dashboard shows of budgets, the fullest first."""
        rows = await self._store.list_page(scope_of(caller), _MOST_SHOWN, None)
        shown = sorted((_shown(row) for row in rows), key=lambda one: -one.state.actual_percent)
        return [
            one.model_dump(mode="json", include={"id", "name", "amount", "currency", "period", "state"})
            for one in shown
        ]

    async def get(self, caller: Caller, ref: m.BudgetRef) -> m.Budget:
        """Return one budget with its state as it is now.

        Raises:
            NotFound: the tenant has no such budget.
        """
        row = await self._get(caller, ref.budget_id)
        state = await self._state(scope_of(caller), row)
        return _shown(row | {"state": state.model_dump(mode="json")})

    async def update(self, caller: Caller, change: m.UpdateBudget) -> m.Budget:
        """Change a budget, and hold it against what was spent.

        Raises:
            NotFound: the tenant has no such budget.
            Stale: it has moved on since the caller read it.
        """
        row = await self._get(caller, change.budget_id)
        if change.expected_version not in (None, row["version"]):
            raise Stale("budget", expected=change.expected_version or 0, current=row["version"])
        given = {name: value for name, value in change if value is not None}
        changed = row | given | (_covered(change.scope) if change.scope else {})
        state = await self._state(scope_of(caller), changed)
        kept = await self._store.change(scope_of(caller), change.budget_id, _values(changed, state), row["version"])
        if kept is None:
            raise Stale("budget", expected=row["version"], current=row["version"] + 1)
        await self._raise(scope_of(caller), kept, state)
        return _shown(kept)

    async def remove(self, caller: Caller, ref: m.BudgetRef) -> m.RemovedBudget:
        """Remove a budget with its alerts.

        Raises:
            NotFound: the tenant has no such budget.
        """
        if not await self._store.remove(scope_of(caller), ref.budget_id):
            raise NotFound("budget", ref.budget_id)
        return m.RemovedBudget(id=ref.budget_id)

    async def alerts(self, caller: Caller, request: m.ListAlerts) -> Page[m.Alert]:
        """Return alerts, the newest first."""
        rows = await self._store.list_alerts(
            scope_of(caller), request.limit + 1, request.cursor, request.budget_id, is_open=request.open
        )
        return page([m.Alert.model_validate(row) for row in rows], request.limit)

    async def acknowledge(self, caller: Caller, ref: m.AlertRef) -> m.Alert:
        """Keep that a person has seen an alert; the first one counts.

        Raises:
            Forbidden: a program asks.
            NotFound: the tenant has no such alert.
        """
        if not caller.is_person:
            raise Forbidden("a person acknowledges alerts of budgets", reason="PEOPLE_ONLY")
        row = await self._store.acknowledge(scope_of(caller), ref.alert_id, caller.subject)
        if row is None:
            raise NotFound("alert", ref.alert_id)
        return m.Alert.model_validate(row)

    async def raise_announced(
        self, caller: Caller, budget_id: UUID, kind: m.AlertKind, threshold: int, amount: Decimal
    ) -> None:
        """Raise an alert that a provider announced for its own budget, once for each period, kind and threshold.

        Raises:
            NotFound: the tenant has no such budget.
        """
        scope = scope_of(caller)
        async with self._db.unit(scope):
            budget = await self._get(caller, budget_id)
            span = span_of(budget["period"], self._today())
            await self._alert(scope, budget, span, kind, threshold, amount)

    async def evaluate_due(self) -> None:
        """Evaluate the budgets of every tenant whose spend has changed, or whose hour is over."""
        while (claimed := await self._store.claim()) is not None:
            tenant, until = claimed
            scope = Scope(tenant)
            async with self._db.unit(scope):
                before: UUID | None = None
                while rows := await self._store.list_page(scope, _MOST_SHOWN, before):
                    for row in rows:
                        state = await self._state(scope, row)
                        await self._store.keep(scope, row["id"], state.model_dump(mode="json"))
                        await self._raise(scope, row, state)
                    before = rows[-1]["id"]
            await self._store.done(tenant, until)

    async def _state(self, scope: Scope, budget: Mapping[str, Any]) -> m.State:
        today = self._today()
        covered = Covered(*(budget[name] for name in ("provider", "account_id", "service", "tag_key", "tag_value")))
        start, end = known_since(budget["period"], today), span_of(budget["period"], today)[1]
        return evaluate(budget, await self._store.list_spent(scope, covered, start, end), today)

    async def _raise(self, scope: Scope, budget: Record, state: m.State) -> None:
        span = state.period_start, state.period_end
        for kind, threshold, amount in reached(budget, state):
            await self._alert(scope, budget, span, kind, threshold, amount)

    async def _alert(
        self, scope: Scope, budget: Record, span: tuple[date, date], kind: m.AlertKind, threshold: int, amount: Decimal
    ) -> None:
        """Raise an alert and tell of it, unless it was raised before."""
        row = await self._store.raise_alert(scope, self._new_id(), budget, span, kind.value, threshold, amount)
        if row is not None and scope.tenant is not None:
            alert = m.Alert.model_validate(row).model_dump(mode="json", exclude={"acknowledged_at", "acknowledged_by"})
            await self._publish(scope.tenant, _EVENT, subject=str(budget["id"]), data=alert)

    async def _get(self, caller: Caller, budget_id: UUID) -> Record:
        row = await self._store.find(scope_of(caller), budget_id)
        if row is None:
            raise NotFound("budget", budget_id)
        return row


def _values(given: Mapping[str, Any], state: m.State) -> tuple[Any, ...]:
    """Return what is stored of a budget, in the order of its columns."""
    return (
        given["name"], given["provider"], given["account_id"], given["service"], given["tag_key"], given["tag_value"],
        given["amount"], given["currency"], str(given["measure"]), str(given["period"]), given["thresholds"],
        given["forecast_thresholds"], state.model_dump(mode="json"),
    )  # fmt: skip


def _covered(scope: m.Reach | None) -> dict[str, Any]:
    return scope.model_dump() if scope else dict.fromkeys(m.Reach.model_fields)


def _shown(row: Mapping[str, Any]) -> m.Budget:
    scope = {name: row[name] for name in ("provider", "account_id", "service", "tag_key", "tag_value")}
    return m.Budget.model_validate({**row, "scope": scope})
