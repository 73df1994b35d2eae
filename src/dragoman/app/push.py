"""Puts push notifications together: what is asked for, what is delivered, and the guarded way out."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from dragoman.app.tasks import TaskCore
from dragoman.context import Caller
from dragoman.doors.a2a.push import SHAPES
from dragoman.infra.auth.vault import Vault
from dragoman.infra.config import Settings
from dragoman.infra.db import Database, Scope
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Clients, Upstream
from dragoman.infra.telemetry import PushMetrics
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.push.deliverer import Deliverer, Patience
from dragoman.services.push.service import PushService
from dragoman.services.push.store import DeliveryStore, PushStore
from dragoman.services.tasks.store import TaskStore

_IDLE: Final = timedelta(seconds=30)
# A lease outlives the longest wait for an answer, with time to spare for the database.
_SPARE_S: Final = 10.0


@dataclass(slots=True)
class PushCore:
    """The notifications of this process: to be started after the database, and stopped before it."""

    service: PushService
    deliverer: Deliverer

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sequence[Job]]:
        """Give the jobs that deliver; what is unfinished at the end is given back."""
        try:
            yield self.deliverer.jobs()
        finally:
            await self.deliverer.stop()


class _TrailedWrites:
    """Writes that are committed with their audit record."""

    def __init__(self, db: Database, trail: AuditTrail) -> None:
        self._db = db
        self._trail = trail

    @asynccontextmanager
    async def recorded(self, caller: Caller, entry: Entry) -> AsyncGenerator[None]:
        """Commit what is written meanwhile, with its record, or neither."""
        scope = Scope(caller.tenant)
        async with self._db.unit(scope):
            yield
            await self._trail.add(scope, caller, entry)


def build_push(
    settings: Settings,
    dbs: tuple[Database, Database],
    tasks: TaskCore,
    trails: tuple[AuditTrail, AuditTrail],
    vault: Vault,
    metrics: PushMetrics,
    outgoing: Clients,
) -> PushCore:
    """Push notifications over these tasks; databases and trails are the application's and the core's."""
    db, core_db = dbs
    patience = Patience(timeout_s=settings.push.timeout_s, max_attempts=settings.push.max_attempts)
    clients = outgoing.of_tenants(Upstream.WEBHOOK, timeout_s=patience.timeout_s, answer_s=patience.timeout_s)
    lease = timedelta(seconds=patience.timeout_s + _SPARE_S)
    deliverer = Deliverer(
        DeliveryStore(core_db, trails[1], new_id(), lease=lease, idle=_IDLE),
        TaskStore(db),
        clients,
        check_caller=tasks.streams.check,
        vault=vault,
        shapes=SHAPES,
        metrics=metrics,
        patience=patience,
    )

    def watch(task_id: UUID) -> None:
        tasks.hub.watch(task_id, deliverer.nudge)
        deliverer.nudge(task_id)

    service = PushService(
        PushStore(db),
        tasks.service,
        guard=clients.guard,
        vault=vault,
        records=_TrailedWrites(db, trails[0]),
        watch=watch,
        new_id=new_id,
    )
    return PushCore(service, deliverer)
