"""Puts conversations together: the agent that is served, what runs its turns, and what cleans up after them."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from dragoman import __version__, kit
from dragoman.app.delegation import GatedDelegations, GatedRefusals
from dragoman.app.engine import EngineCore
from dragoman.app.models import Models
from dragoman.app.offers import SkillFactories, offered
from dragoman.app.tools import GateTools
from dragoman.gate import Gate
from dragoman.infra.config import ConfigError, Settings
from dragoman.infra.db import Database
from dragoman.infra.deadlines import Deadlines
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.limits import OpenStreams
from dragoman.infra.outbound import Clients
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tasks.cleanup import Cleanup
from dragoman.services.tasks.engine.notifier import TaskNotifier
from dragoman.services.tasks.engine.store_keys import KeyStore
from dragoman.services.tasks.store import TaskStore, ThreadStore
from dragoman.services.tasks.store_retention import RetentionStore
from dragoman.services.tasks.turns.executor import TaskExecutor
from dragoman.services.tasks.turns.host import Sizes
from dragoman.services.tasks.turns.run import TurnDependencies, TurnLane
from dragoman.services.tasks.turns.service import TaskService

_A_CENTURY_S = 3_155_760_000.0


@dataclass(slots=True)
class TaskCore:
    """The conversations of this process, on its engine."""

    service: TaskService
    agent: kit.Agent | None
    streams: OpenStreams
    core: EngineCore
    cleanup: Cleanup
    models: Models

    @property
    def hub(self) -> TaskNotifier:
        """Who wakes those that follow a task."""
        return self.core.notifier

    def jobs(self) -> Sequence[Job]:
        """Return the jobs of the engine, and the one that cleans up."""
        return [*self.core.jobs(), self.cleanup.job]

    async def start(self) -> None:
        """Start the engine."""
        await self.core.start()

    async def stop(self) -> None:
        """Give back what is unfinished."""
        await self.core.stop()
        await self.models.close()


def build_tasks(
    settings: Settings,
    dbs: tuple[Database, Database],
    core: EngineCore,
    tools: GateTools,
    gate: Gate,
    entry: tuple[TaskAccess, OpenStreams],
    outgoing: Clients,
    skills: SkillFactories,
) -> TaskCore:
    """Build conversations, with the agent that the settings name; `dbs` are the application's and the core's."""
    (db, core_db), (access, streams) = dbs, entry
    agent = load_agent(settings.agent) if settings.agent else None
    store, threads, metrics = TaskStore(db), ThreadStore(db), core.engine.metrics
    models = Models(settings, outgoing)
    executor = TaskExecutor(
        tools,
        models.given_to(served_agent(agent, tools, skills)),
        store=store,
        threads=threads,
        sizes=Sizes(settings.threads.max_bytes, settings.tasks.max_state_bytes, settings.tasks.max_artifact_bytes),
        metrics=metrics,
    )
    turns = TurnDependencies(
        engine=core.engine,
        executor=executor,
        ledger=core.ledger,
        keys=KeyStore(db),
        access=access,
        trail=core.trail,
        retries=core.retries,
        deadlines=Deadlines(settings.tasks.timeout_s or _A_CENTURY_S),
        new_id=new_id,
    )
    core.engine.serve(TurnLane(turns))
    service = TaskService(
        turns,
        store=store,
        threads=threads,
        effects=core.effects,
        access=access,
        streams=streams,
        thread_bytes=settings.threads.max_bytes,
        delegations=GatedDelegations(gate, store),
        refusals=GatedRefusals(gate),
    )
    cleanup = Cleanup(
        RetentionStore(core_db, core.trail),
        metrics,
        every_s=settings.threads.cleanup_s,
        keep_tasks=timedelta(seconds=settings.tasks.retention_s),
    )
    return TaskCore(service, agent, streams, core, cleanup, models)


def served_agent(agent: kit.Agent | None, tools: GateTools, plugged: SkillFactories) -> kit.Agent:
    """What reads free text: the agent with the operations beside it, or the operations alone."""
    skills = offered(tools, agent, plugged)
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
