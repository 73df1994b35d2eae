"""Follows tasks that carry recommendations out: these become executed, or stay approved with a plan or an error."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog

from dragoman.context import Role, ourselves
from dragoman.errors import DragomanError
from dragoman.infra.db import Scope
from dragoman.infra.jobs import Job
from dragoman.plugin import GateRun
from dragoman_costs.recommendations.store_executing import ExecutingStore

_LOG = structlog.get_logger(__name__)
_AT_ONCE: Final = 50
_ENDED_BADLY: Final = {"failed", "rejected", "cancelled", "dead_letter"}
Json = dict[str, Any]


class Settling:
    """Looks at tasks by itself, because a worker elsewhere tells the task engine and not us."""

    def __init__(self, store: ExecutingStore, run: GateRun, *, every_s: float = 1.0) -> None:
        self._store = store
        self._run = run
        self._every_s = every_s

    @property
    def job(self) -> Job:
        """Return the job that settles what has ended."""
        return Job(name="recommendation_settling", work=self.settle, every_s=self._every_s)

    async def settle(self) -> None:
        """Take over what has become of the tasks that are due for a look."""
        for row in await self._store.take_under_way(_AT_ONCE):
            await self._settle(row["tenant_id"], row["id"], row["task_id"])

    async def _settle(self, tenant: UUID, recommendation_id: UUID, task_id: UUID) -> None:
        caller = ourselves(tenant, roles=frozenset({Role.ORG_ADMIN}))
        try:
            task = await self._run("task.status", caller, {"task_id": str(task_id)})
        except DragomanError as error:
            _LOG.warning("recommendation.task_unread", task=str(task_id), code=error.code)
            return
        scope, state = Scope(tenant), str(task.state)
        if state == "succeeded":
            result: Json = task.result or {}
            if result.get("executed") is False:
                await self._store.give_up(scope, recommendation_id, task_id=task_id, error=None, plan=result)
                return
            last = [step for step in task.history if step.worker]
            at: datetime = task.history[-1].at
            worker = last[-1].worker if last else None
            await self._store.finish(scope, recommendation_id, [at, worker, task_id, result])
        elif state in _ENDED_BADLY:
            failure: Json = {"state": state, **(task.error or {})}
            await self._store.give_up(scope, recommendation_id, task_id=task_id, error=failure, plan=None)
