"""Loads the demo as a task: accounts, their rows by month, and what is found in them."""

import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, Final, cast
from uuid import UUID

from dragoman.blocking import Threads
from dragoman.context import Caller, report_progress
from dragoman.infra.db import Scope, scope_of
from dragoman.plugin import GateRun
from dragoman.services.workers.protocol import Assignment, Capability, Performed
from dragoman_costs.analyses.service import Analyses
from dragoman_costs.slices.store import NewSlice, SliceStore
from dragoman_costs.synthetic import models as m
from dragoman_costs.synthetic.building import build_estate
from dragoman_costs.synthetic.estate import MONTH_DAYS, DemoAccount, Estate
from dragoman_costs.synthetic.spend import Charge, list_charges
from dragoman_costs.synthetic.store import DemoStore

ACTION: Final = "costs.demo"
_AT_ONCE: Final = 4_000
_ACTORS: Final = {"user": "human", "agent": "agent", "service": "service"}
LOAD: Final = Capability(
    ACTION, "Load or remove the demo of costs", m.LoadDemo, required=False, timeout_s=300, at_once=2,
    permissions=("manage:accounts",),
)  # fmt: skip


class Demo:
    """Hands the loading of the demo over, and performs it."""

    name = "costs-demo"
    capabilities: Sequence[Capability] = (LOAD,)

    def __init__(
        self, store: DemoStore, slices: SliceStore, run: GateRun, analyses: Analyses,
        *, new_id: Callable[[], UUID], today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:  # fmt: skip
        self._store = store
        self._slices = slices
        self._run = run
        self._analyses = analyses
        self._new_id = new_id
        self._today = today
        self._threads = Threads("costs-demo", 2, share=1)

    async def request(self, caller: Caller, request: m.LoadDemo) -> m.DemoStarted:
        """Hand the demo over as a task; those of a tenant run one after another."""
        key = f"costs-demo:{self._new_id()}"
        envelope = {
            "envelope_version": "1",
            "actor": {"id": caller.subject, "type": _ACTORS[caller.type.value]},
            "action": ACTION,
            "resource": {"type": "cost_demo", "id": "demo"},
            "matter": {"id": "costs-demo", "title": "Demo of costs"},
            "idempotency_key": key,
            "request": {"queue_key": "costs-demo"},
            "input": request.model_dump(mode="json"),
        }
        submitted = await self._run("task.submit", caller, {"envelope": envelope})
        return m.DemoStarted(task_id=submitted.task_id, state=str(submitted.state))

    async def perform(self, assignment: Assignment) -> Performed:
        """Load the demo, or remove it. An attempt that is repeated goes on where the one before ended."""
        request, scope = cast("m.LoadDemo", assignment.input), scope_of(assignment.caller)
        if request.remove:
            return Performed(await self._remove(scope))
        return Performed(await self._load(scope, request, assignment))

    async def _remove(self, scope: Scope) -> dict[str, Any]:
        accounts = await self._store.list_accounts(scope)
        if accounts:
            await self._analyses.hold(scope)
        for account_id in accounts:
            await self._store.empty(scope, account_id, wholly=True)
        if accounts:
            await self._analyses.run(scope)
        return {"removed_accounts": len(accounts)}

    async def _load(self, scope: Scope, request: m.LoadDemo, assignment: Assignment) -> dict[str, Any]:
        await self._analyses.hold(scope)
        until = self._today() - timedelta(days=1)
        await report_progress("Making up spend", 2)
        estate = await self._threads.run(
            scope.tenant, build_estate, request.seed, until=until, days=request.months * MONTH_DAYS
        )
        rows = 0
        for number, account in enumerate(estate.accounts):
            await report_progress(f"Loading {account.name}", 5 + 80 * number / len(estate.accounts))
            account_id = await self._store.ensure_account(scope, account, self._new_id(), assignment.caller.subject)
            charges = await self._threads.run(scope.tenant, _all_charges, estate, account)
            rows += len(charges)
            await self._write(scope, account_id, account, estate, charges)
        await report_progress("Looking for anomalies and savings", 90)
        found = await self._analyses.run(scope)
        return {
            "synthetic": True, "accounts": len(estate.accounts), "rows": rows,
            "first_day": estate.first_day.isoformat(), "last_day": until.isoformat(), **found,
        }  # fmt: skip

    async def _write(
        self, scope: Scope, account_id: UUID, account: DemoAccount, estate: Estate, charges: Sequence[Charge]
    ) -> None:
        """Write each month as a slice that replaces the one before; a month that is shown already is left as it is."""
        for month, group in groupby(charges, key=lambda one: one["BillingPeriodStart"]):
            found = list(group)
            described = f"{estate.seed}:{account.identifier}:{estate.first_day}:{estate.days}:{month}:{len(found)}"
            period = date.fromisoformat(month[:10])
            new = NewSlice(
                self._new_id(), account_id, period, "", self._new_id(), f"demo-{account.provider}-{period:%Y-%m}.csv",
                hashlib.sha256(described.encode()).hexdigest(),
            )  # fmt: skip
            if await self._store.has_slice(scope, new):
                continue
            await self._slices.begin(scope, new)
            for begin in range(0, len(found), _AT_ONCE):
                await self._store.add_rows(scope, new.id, begin + 1, found[begin : begin + _AT_ONCE])
            await self._slices.show(scope, new, whole=True)
        await self._store.empty(scope, account_id, wholly=False)


def _all_charges(estate: Estate, account: DemoAccount) -> list[Charge]:
    return list(list_charges(estate, account))
