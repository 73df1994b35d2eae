"""Puts push notifications together: what is asked for, what is delivered, and the guarded way out."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

import httpx

from dragoman import __version__
from dragoman.app.tasks import TaskCore
from dragoman.doors.a2a.push import SHAPES
from dragoman.infra.auth.vault import Vault
from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Allowed, Guard
from dragoman.infra.telemetry import PushMetrics
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


def build_push(
    settings: Settings, db: Database, core_db: Database, tasks: TaskCore, vault: Vault, metrics: PushMetrics
) -> PushCore:
    """Push notifications over these tasks."""
    guard = Guard(Allowed.of(settings.outbound.allow))
    patience = Patience(timeout_s=settings.push.timeout_s, max_attempts=settings.push.max_attempts)
    client = httpx.AsyncClient(
        transport=guard,
        trust_env=False,
        timeout=patience.timeout_s,
        headers={"user-agent": f"dragoman/{__version__}"},
    )
    lease = timedelta(seconds=patience.timeout_s + _SPARE_S)
    deliverer = Deliverer(
        DeliveryStore(core_db, new_id(), lease=lease, idle=_IDLE),
        TaskStore(db),
        client,
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
        guard=guard,
        vault=vault,
        watch=watch,
        new_id=new_id,
    )
    return PushCore(service, deliverer)
