"""Runs analyses: after each import by a job, and at once where somebody waits for it."""

from typing import Final

from dragoman.infra.db import Database, Scope
from dragoman.infra.jobs import Job
from dragoman_costs.analyses.store import AnalysisStore
from dragoman_costs.anomalies.service import AnomalyService
from dragoman_costs.recommendations.generating import Generator

_SETTLED_MS: Final = 500


class Analyses:
    """Looks for anomalies and savings in the bills of a tenant."""

    def __init__(
        self, store: AnalysisStore, anomalies: AnomalyService, generator: Generator, db: Database, *,
        every_s: float = 1.0,
    ) -> None:  # fmt: skip
        self._store = store
        self._anomalies = anomalies
        self._generator = generator
        self._db = db
        self._every_s = every_s

    @property
    def job(self) -> Job:
        """Return the job that analyses what is due."""
        return Job(name="cost_analysis", work=self.catch_up, every_s=self._every_s)

    async def catch_up(self) -> None:
        """Analyse all tenants that are due, one after another."""
        while (due := await self._store.take(_SETTLED_MS)) is not None:
            tenant, due_at = due
            try:
                await self._look(Scope(tenant))
            except Exception:
                await self._store.put_off(tenant)
                raise
            await self._store.finish(tenant, due_at)

    async def run(self, scope: Scope) -> dict[str, int]:
        """Analyse a tenant now, and return what there is."""
        due_at = await self._store.find_due(scope)
        found = await self._look(scope)
        if due_at is not None and scope.tenant is not None:
            await self._store.finish(scope.tenant, due_at)
        return found

    async def hold(self, scope: Scope) -> None:
        """Wait with the analysis of a tenant until `run`, or for minutes at most: its bills are not complete."""
        await self._store.hold(scope)

    async def ask(self, scope: Scope) -> None:
        """Have a tenant analysed soon."""
        await self._store.ask(scope)

    async def _look(self, scope: Scope) -> dict[str, int]:
        async with self._db.unit(scope):
            await self._store.lock(scope)
            anomalies = await self._anomalies.search(scope)
        async with self._db.unit(scope):
            await self._store.lock(scope)
            findings = await self._generator.generate(scope)
        return {"anomalies": anomalies, "recommendations": findings}
