"""Puts costs together."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from dragoman.infra.jobs import Job
from dragoman.plugin import Platform, Vertical
from dragoman_costs.accounts.building import build_accounts
from dragoman_costs.analyses.building import build_analyses
from dragoman_costs.budgets.building import build_budgets
from dragoman_costs.imports.building import build_imports
from dragoman_costs.query.building import build_query
from dragoman_costs.rates.building import build_rates

PARTS = (
    build_accounts,
    build_imports,
    build_query,
    build_rates,
    build_budgets,
    build_analyses,
)


def build_costs(platform: Platform) -> Vertical:
    """Bind the operations of costs, and return what else a server needs of it."""
    parts = [build(platform) for build in PARTS]

    @asynccontextmanager
    async def running() -> AsyncGenerator[Sequence[Job]]:
        async with AsyncExitStack() as stack:
            yield [job for part in parts for job in await stack.enter_async_context(part.running())]

    return Vertical(
        workers=[worker for part in parts for worker in part.workers],
        resources=[check for part in parts for check in part.resources],
        skills={name: factory for part in parts for name, factory in part.skills.items()},
        rows=[group for part in parts for group in part.rows],
        checks={name: check for part in parts for name, check in part.checks.items()},
        handles={topic: handler for part in parts for topic, handler in part.handles.items()},
        running=running,
    )
