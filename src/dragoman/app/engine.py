"""Puts the task engine together: what it writes, how it hears of other processes, and its jobs."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from dragoman.infra.config import Settings
from dragoman.infra.db import Database, Signals
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.telemetry import TaskMetrics
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.tasks.engine.effects import Ledger
from dragoman.services.tasks.engine.engine import Engine
from dragoman.services.tasks.engine.notifier import TaskNotifier
from dragoman.services.tasks.engine.retries import RetryPolicy
from dragoman.services.tasks.engine.store import Durations, EngineStore
from dragoman.services.tasks.engine.store_effects import EffectStore

_CHANNEL: Final = "dragoman_tasks"
# Stands in a message beside the ids of tasks that changed.
_QUEUED: Final = "queued"
# So many heartbeats fit into a lease, with one to spare.
_HEARTBEATS: Final = 3.5


@dataclass(slots=True)
class EngineCore:
    """The task engine of this process: to be started after the database, and stopped before it."""

    engine: Engine
    store: EngineStore
    trail: AuditTrail
    effects: EffectStore
    ledger: Ledger
    retries: RetryPolicy
    notifier: TaskNotifier
    signals: Signals
    performs: bool

    async def start(self) -> None:
        """Do nothing yet: the jobs do it."""

    async def stop(self) -> None:
        """Stop, and give back what is unfinished once everything that is known of it is written."""
        await self.engine.stop()
        await self.ledger.close()
        await self.engine.release()

    def jobs(self) -> Sequence[Job]:
        """Return the jobs: keep leases, claim work, tell and hear of changes."""
        claim = Job(name="task_claims", work=self.engine.claim_forever)
        leases = Job(name="task_leases", work=self.engine.renew_forever)
        sweep = Job(name="task_sweep", work=self.engine.sweep, every_s=self.engine.heartbeat_s)
        return [leases, sweep, claim, *self.signals.jobs(self._changed, self._heard, self.notifier.wake_all)]

    async def _changed(self) -> Iterable[str]:
        changed, queued = await self.notifier.take_notifications()
        return [*((_QUEUED,) if queued else ()), *map(str, changed)]

    def _heard(self, names: Iterable[str]) -> None:
        received = set(names)
        if _QUEUED in received:
            self.engine.wake()
        for task_id in [UUID(name) for name in received - {_QUEUED}]:
            self.notifier.wake(task_id)
            if self.engine.find(task_id) is not None:
                look = asyncio.ensure_future(self.engine.look_at(task_id))
                look.add_done_callback(lambda done: done.cancelled() or done.exception())


def build_engine(
    settings: Settings, core_db: Database, url: str, trail: AuditTrail, metrics: TaskMetrics
) -> EngineCore:
    """Build the engine, without its lanes."""
    owner, notifier = new_id(), TaskNotifier()
    durations = Durations(
        lease=timedelta(seconds=settings.tasks.lease_s),
        context=timedelta(seconds=settings.threads.context_ttl_s),
        thread=timedelta(seconds=settings.threads.ttl_s),
    )
    store, effects = EngineStore(core_db, trail, durations), EffectStore(core_db, lease=durations.lease)
    engine = Engine(store, notifier, metrics, owner=owner, heartbeat_s=min(1.0, settings.tasks.lease_s / _HEARTBEATS))
    return EngineCore(
        engine=engine,
        store=store,
        trail=trail,
        effects=effects,
        ledger=Ledger(effects),
        retries=RetryPolicy(settings.tasks.max_attempts, settings.tasks.retry_base_s, settings.tasks.retry_max_s),
        notifier=notifier,
        signals=Signals(url, _CHANNEL, present=str(owner)),
        performs=settings.tasks.take_over,
    )
