"""Puts delegated tasks together: who may hand over what, who performs it, and what runs in this process."""

import asyncio
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from dragoman.arguments import read_arguments
from dragoman.context import Caller
from dragoman.errors import DragomanError, Forbidden, InvalidInput, Kind
from dragoman.gate import Gate
from dragoman.infra.config import ConfigError, Settings
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.infra.telemetry import TaskMetrics
from dragoman.operations import Handlers
from dragoman.services.approvals.models import DecideApproval
from dragoman.services.approvals.operations import DECIDE_ONE
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.delegation import operations
from dragoman.services.delegation.attempts import Bench
from dragoman.services.delegation.coordinator import Coordinator, Post
from dragoman.services.delegation.effects import Ledger
from dragoman.services.delegation.errors import CapabilityNotFound
from dragoman.services.delegation.models import Origin, ProvideInput, SubmitTask
from dragoman.services.delegation.ports import Documents, Governance, Registry
from dragoman.services.delegation.retries import Patience
from dragoman.services.delegation.service import DelegationService
from dragoman.services.delegation.steering import Steering
from dragoman.services.delegation.store import DelegationStore
from dragoman.services.delegation.store_effects import EffectStore
from dragoman.services.delegation.store_read import TaskViews
from dragoman.services.delegation.submission import Entrance
from dragoman.services.delegation.workers import Worker
from dragoman.services.tasks.executor import find_tool_call
from dragoman.services.tasks.hub import Hub
from dragoman.services.tasks.models import Incoming, Json, Task
from dragoman.services.tasks.store import CoreStore, Keeping, TaskStore
from dragoman.services.tasks.writer import TaskWriter


@dataclass(frozen=True, slots=True)
class Deciders:
    """Who says what may be done, and by whom."""

    registry: Registry
    governance: Governance
    documents: Documents


class GatedDelegations:
    """Hand-overs that came in messages, through the gate like all others."""

    def __init__(self, core: "DelegationCore", gate: Gate) -> None:
        self.core = core
        self._gate = gate

    def find_arguments(self, message: Json) -> Any | None:
        """The arguments of the hand-over that a message is, or None when it is none."""
        try:
            called = find_tool_call(message)
        except InvalidInput:
            return None
        return called[1] if called is not None and called[0] == operations.SUBMIT.tool else None

    async def submit(self, caller: Caller, arguments: Any, incoming: Incoming) -> tuple[UUID, bool]:
        """The task that it became, and whether it had become that before."""
        values = cast("Json", arguments) if isinstance(arguments, dict) else {"envelope": arguments}
        given = read_arguments(SubmitTask, values)
        origin = Origin(incoming.message, incoming.context_id, incoming.alias)
        submitted = await self._gate.run(operations.SUBMIT, caller, given.within(origin))
        return submitted.task_id, submitted.replayed

    def refuses(self, error: DragomanError) -> bool:
        """Whether the action is not taken on; who may not even ask is told that it failed, as for any operation."""
        return isinstance(error, CapabilityNotFound) or (error.kind is Kind.FORBIDDEN and error.code != Forbidden.code)

    async def answer(self, caller: Caller, task: Task, incoming: Incoming) -> None:
        """Go on with a task that was handed over and waits for somebody."""
        said = next((part["data"] for part in incoming.message["parts"] if part["kind"] == "data"), None)
        text = "\n".join(part["text"] for part in incoming.message["parts"] if part["kind"] == "text")
        answer: Json = {"input": {"answer": said if said is not None else text}}
        fields = cast("Json", said) if isinstance(said, dict) else answer
        if "decision" in fields and (waits_for := _approvals_of(task)):
            decided = read_arguments(DecideApproval, {"approval_id": waits_for[0], **fields})
            await self._gate.run(DECIDE_ONE, caller, decided)
            return
        given = read_arguments(ProvideInput, {**fields, "task_id": str(task.id)})
        await self._gate.run(operations.PROVIDE_INPUT, caller, given)

    async def cancel(self, caller: Caller, task: Task) -> Task:
        """End a task that was handed over."""
        return await self.core.steering.end(caller, str(task.id))


def _approvals_of(task: Task) -> list[str]:
    """The approvals that a task says it waits for."""
    parts: list[Json] = task.message["parts"] if task.message else []
    told: list[Json] = [part["data"] for part in parts if isinstance(part.get("data"), dict)]
    return next((data["approvals"] for data in told if "approvals" in data), list[str]())


@dataclass(slots=True)
class DelegationCore:
    """The delegated tasks of this process: to be started after the database, and stopped before it."""

    service: DelegationService
    steering: Steering
    coordinator: Coordinator
    hub: Hub
    works: bool
    jobs: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def start(self) -> None:
        """Take up what is due, unless other processes do."""
        if self.works:
            self.jobs = [asyncio.create_task(self.coordinator.run()), asyncio.create_task(self.coordinator.beat())]

    async def stop(self) -> None:
        """Give back what is unfinished."""
        for job in self.jobs:
            job.cancel()
        await asyncio.gather(*self.jobs, return_exceptions=True)
        await self.coordinator.stop()

    def heard(self, task_ids: Sequence[UUID]) -> None:
        """Other processes changed these: there may be something to do, or to stop doing."""
        self.coordinator.poke()
        for task_id in task_ids:
            if self.coordinator.runs(task_id):
                check = asyncio.ensure_future(self.coordinator.look_at(task_id))
                check.add_done_callback(lambda done: done.cancelled() or done.exception())


def build_delegation(
    settings: Settings,
    handlers: Handlers,
    dbs: tuple[Database, Database],
    trail: AuditTrail,
    deciders: Deciders,
    metrics: TaskMetrics,
) -> DelegationCore:
    """The delegated tasks; the databases are those of the application and of the core."""
    db, core_db = dbs
    worker, hub = new_id(), Hub()
    keeping = Keeping(lease=timedelta(seconds=settings.tasks.lease_s))
    patience = Patience(settings.tasks.max_attempts, settings.tasks.retry_base_s, settings.tasks.retry_max_s)
    store, effects = DelegationStore(core_db, trail, lease=keeping.lease), EffectStore(core_db)
    core = CoreStore(core_db, keeping)
    bench = Bench(deciders.registry, deciders.governance, Ledger(effects), trail, patience, new_id)
    coordinator = Coordinator(bench, store, Post(worker, core, TaskWriter(core), hub, metrics))
    entrance = Entrance(deciders.registry, deciders.governance, deciders.documents, trail, patience, new_id)
    service = DelegationService(
        entrance, store, views=TaskViews(db), tasks=TaskStore(db), coordinator=coordinator, hub=hub
    )
    steering = Steering(entrance, store, effects, service.finder, coordinator=coordinator, hub=hub)
    handlers.add(operations.SUBMIT, service.submit)
    handlers.add(operations.STATUS, service.status)
    handlers.add(operations.LIST, service.list_tasks)
    handlers.add(operations.EVENTS, service.events)
    handlers.add(operations.RETRY, steering.retry)
    handlers.add(operations.CANCEL, steering.cancel)
    handlers.add(operations.PROVIDE_INPUT, steering.provide_input)
    handlers.add(operations.TRANSITION, steering.transition)
    handlers.add(operations.RETRY_MANY, steering.retry_many)
    handlers.add(operations.CANCEL_MANY, steering.cancel_many)
    return DelegationCore(service, steering, coordinator, hub, settings.tasks.take_over)


def load_workers(names: Sequence[str]) -> list[Worker]:
    """The workers that the settings name, each as `module:name` of one or of several.

    Raises:
        ConfigError: there is none.
    """
    found: list[Worker] = []
    for name in names:
        module_name, _, attribute = name.partition(":")
        try:
            named = getattr(importlib.import_module(module_name), attribute or "workers")
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"DRAGOMAN_TASKS__WORKERS: cannot load {name!r}: {error}") from error
        found += cast("Sequence[Worker]", named) if isinstance(named, list | tuple) else [cast("Worker", named)]
    return found
