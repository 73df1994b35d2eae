"""Puts budgets together, and the dashboard that shows them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from typing import Final

from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.plugin import Platform, Vertical
from dragoman.services.inbox.topics import BUDGET_ALERT
from dragoman_costs.analyses.building import build_highlights
from dragoman_costs.budgets import operations
from dragoman_costs.budgets.announcements import BudgetAnnouncements
from dragoman_costs.budgets.service import BudgetService
from dragoman_costs.budgets.store import BudgetStore
from dragoman_costs.dashboard import operations as dashboard
from dragoman_costs.dashboard.sections import Sections
from dragoman_costs.dashboard.service import DashboardService
from dragoman_costs.dashboard.store import DashboardStore
from dragoman_costs.query.building import build_reader

_EVERY_S: Final = 5.0


def today() -> date:
    """Return the day, in UTC."""
    return datetime.now(UTC).date()


def build_budgets(platform: Platform) -> Vertical:
    """Bind the operations of budgets and dashboards; return the job that evaluates budgets."""
    store = BudgetStore(platform.db, platform.core_db)
    budgets = BudgetService(store, platform.db, publish=platform.publish, new_id=new_id, today=today)
    handlers = platform.handlers
    handlers.add(operations.CREATE, budgets.create)
    handlers.add(operations.LIST, budgets.list)
    handlers.add(operations.GET, budgets.get)
    handlers.add(operations.UPDATE, budgets.update)
    handlers.add(operations.REMOVE, budgets.remove)
    handlers.add(operations.ALERTS, budgets.alerts)
    handlers.add(operations.ACKNOWLEDGE, budgets.acknowledge)
    _build_dashboard(platform, budgets)

    @asynccontextmanager
    async def running() -> AsyncGenerator[Sequence[Job]]:
        yield [Job(name="cost_budgets", work=budgets.evaluate_due, every_s=_EVERY_S)]

    announced = BudgetAnnouncements(budgets, platform.run)
    return Vertical(running=running, handles={BUDGET_ALERT: announced.alert})


def _build_dashboard(platform: Platform, budgets: BudgetService) -> None:
    service = DashboardService(
        DashboardStore(platform.db),
        build_reader(platform),
        budgets=budgets.list_states,
        highlights=Sections(build_highlights(platform), platform.permits),
        today=today,
    )
    platform.handlers.add(dashboard.DASHBOARD, service.dashboard)
    platform.handlers.add(dashboard.OVERVIEW, service.overview)
    platform.handlers.add(dashboard.TREND, service.cost_trend)
    platform.handlers.add(dashboard.BY_PROVIDER, service.by_provider)
    platform.handlers.add(dashboard.BY_SERVICE, service.by_service)
