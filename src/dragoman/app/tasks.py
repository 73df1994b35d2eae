"""Puts the task core together: what runs in this process, what it writes, how it hears of others."""

import asyncio
import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from dragoman import __version__, kit
from dragoman.app.delegation import DelegationCore, GatedDelegations
from dragoman.app.models import Models
from dragoman.app.offers import offered
from dragoman.app.tools import GateTools
from dragoman.infra.config import ConfigError, Settings
from dragoman.infra.db import Database, Signals
from dragoman.infra.deadlines import Deadlines
from dragoman.infra.ids import new_id
from dragoman.infra.telemetry import TaskMetrics
from dragoman.services.tasks.cleanup import Cleanup
from dragoman.services.tasks.executor import Sizes, TaskExecutor
from dragoman.services.tasks.hub import Hub
from dragoman.services.tasks.ports import Sessions
from dragoman.services.tasks.runs import Desk, Runs
from dragoman.services.tasks.service import TaskService
from dragoman.services.tasks.store import CoreStore, Keeping, TaskStore, ThreadStore
from dragoman.services.tasks.store_keys import KeyStore
from dragoman.services.tasks.store_retention import RetentionStore
from dragoman.services.tasks.writer import TaskWriter

_CHANNEL = "dragoman_tasks"
_A_CENTURY_S = 3_155_760_000.0


@dataclass(slots=True)
class TaskCore:
    """The tasks of this process: to be started after the database, and stopped before it."""

    service: TaskService
    agent: kit.Agent | None
    runs: Runs
    hub: Hub
    cleanup: Cleanup
    signals: Signals
    models: Models
    delegation: DelegationCore
    jobs: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def start(self) -> None:
        """Take up what is due, and listen."""
        self.jobs = [
            asyncio.create_task(self.runs.beat()),
            asyncio.create_task(self.signals.send(self._nudges)),
            asyncio.create_task(self.signals.receive(self._heard, self.hub.wake_all)),
            asyncio.create_task(self.cleanup.run()),
        ]
        await self.delegation.start()

    async def stop(self) -> None:
        """Give back what is unfinished."""
        for job in self.jobs:
            job.cancel()
        await asyncio.gather(*self.jobs, return_exceptions=True)
        await self.delegation.stop()
        await self.runs.stop()
        await self.models.close()

    async def _nudges(self) -> Iterable[str]:
        return [str(task_id) for task_id in await self.hub.take_nudges()]

    def _heard(self, names: Iterable[str]) -> None:
        heard = [UUID(name) for name in names]
        self.delegation.heard(heard)
        for task_id in heard:
            self.hub.wake(task_id)
            if self.runs.find(task_id) is not None:
                check = asyncio.ensure_future(self.runs.look_at(task_id))
                check.add_done_callback(lambda done: done.cancelled() or done.exception())


def build_tasks(
    settings: Settings,
    db: Database,
    core_db: Database,
    url: str,
    tools: GateTools,
    metrics: TaskMetrics,
    sessions: Sessions,
    delegations: GatedDelegations,
) -> TaskCore:
    """The task core, with the agent that the settings name."""
    agent = load_agent(settings.agent) if settings.agent else None
    keeping = Keeping(
        lease=timedelta(seconds=settings.tasks.lease_s),
        context=timedelta(seconds=settings.threads.context_ttl_s),
        thread=timedelta(seconds=settings.threads.ttl_s),
    )
    core, store, threads, worker = CoreStore(core_db, keeping), TaskStore(db), ThreadStore(db), new_id()
    hub = delegations.core.hub
    writer, keys = TaskWriter(core), KeyStore(db, core_db)
    models = Models(settings)
    served = models.given_to(served_agent(agent, tools))
    executor = TaskExecutor(
        tools,
        served,
        store=store,
        threads=threads,
        sizes=Sizes(settings.threads.max_bytes, settings.tasks.max_state_bytes, settings.tasks.max_artifact_bytes),
        metrics=metrics,
    )
    desk = Desk(
        worker=worker,
        core=core,
        writer=writer,
        keys=keys,
        hub=hub,
        executor=executor,
        metrics=metrics,
        deadlines=Deadlines(settings.tasks.timeout_s or _A_CENTURY_S),
        new_id=new_id,
    )
    runs = Runs(desk, max_attempts=settings.tasks.max_attempts, takes_over=settings.tasks.take_over)
    service = TaskService(
        desk, runs, store=store, threads=threads, thread_bytes=settings.threads.max_bytes, sessions=sessions,
        delegations=delegations,
    )  # fmt: skip
    cleanup = Cleanup(
        RetentionStore(core_db),
        metrics,
        every_s=settings.threads.cleanup_s,
        keep_tasks=timedelta(seconds=settings.tasks.retention_s),
    )
    delegations.core.steering.conversations = service
    return TaskCore(service, agent, runs, hub, cleanup, Signals(url, _CHANNEL), models, delegations.core)


def served_agent(agent: kit.Agent | None, tools: GateTools) -> kit.Agent:
    """What reads free text: the agent with the operations beside it, or the operations alone."""
    skills = offered(tools, agent)
    if agent is not None:
        return agent.with_skills(skills)
    return kit.Agent("Dragoman", "Runs the operations of this server.", __version__, skills=skills)


def load_agent(name: str) -> kit.Agent:
    """The agent that `module:name` names.

    Raises:
        ConfigError: there is none.
    """
    module_name, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute or "agent")
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"DRAGOMAN_AGENT: cannot load {name!r}: {error}") from error
    if not isinstance(found, kit.Agent):
        raise ConfigError(f"DRAGOMAN_AGENT: {name!r} is a {type(found).__name__}, not a kit Agent")
    return found
