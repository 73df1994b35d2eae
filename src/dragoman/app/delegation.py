"""Puts delegated tasks together: who may hand over what, who performs it, and what runs in this process."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from dragoman.app.engine import EngineCore
from dragoman.context import Caller
from dragoman.errors import DragomanError, Forbidden, Kind
from dragoman.gate import Gate
from dragoman.infra.config import ConfigError
from dragoman.infra.db import Database, Scope
from dragoman.infra.ids import new_id
from dragoman.operations import AnyOperation, Handlers
from dragoman.services.approvals.operations import DECIDE_ONE
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.tasks import operations
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tasks.actions.actors import Actors
from dragoman.services.tasks.actions.attempt import ActionDependencies, ActionLane
from dragoman.services.tasks.actions.errors import CapabilityNotFound
from dragoman.services.tasks.actions.ports import Governance, Registry, Resources
from dragoman.services.tasks.actions.service import DelegationService
from dragoman.services.tasks.actions.submission import Submissions
from dragoman.services.tasks.control import TaskControl
from dragoman.services.tasks.models import Incoming, Json, Task, ToolCall
from dragoman.services.tasks.passages import SEND_MESSAGE
from dragoman.services.tasks.shapes import Origin, SentArguments
from dragoman.services.tasks.store import TaskStore
from dragoman.services.tasks.store_views import TaskViewStore
from dragoman.services.tasks.views import TaskViews
from dragoman.services.workers.protocol import Worker


@dataclass(frozen=True, slots=True)
class Deciders:
    """Who says what may be done, and by whom."""

    actors: Actors
    registry: Registry
    governance: Governance
    resources: Resources


@dataclass(frozen=True, slots=True)
class Delegation:
    """Delegated tasks, for those who ask and for those who control them."""

    service: DelegationService
    control: TaskControl


class GatedDelegations:
    """Hand-overs that came in messages, through the gate like all others."""

    def __init__(self, gate: Gate, tasks: TaskStore) -> None:
        self._gate = gate
        self._tasks = tasks

    def takes(self, incoming: Incoming) -> bool:
        """Whether a message hands an action over: it names the tool for that."""
        return incoming.tool_call is not None and incoming.tool_call.name == operations.SUBMIT.tool

    async def submit(self, caller: Caller, incoming: Incoming) -> tuple[UUID, bool]:
        """The task that it became, and whether it had become that before."""
        call = incoming.tool_call or ToolCall(operations.SUBMIT.tool, {})
        sent = SentArguments(call.arguments, Origin(incoming.message, incoming.context_id, incoming.alias))
        submitted = await self._gate.run(operations.SUBMIT, caller, sent, admitted=call.admitted)
        return submitted.task_id, submitted.replayed

    def refuses(self, error: DragomanError) -> bool:
        """Whether the action is not taken on; who may not even ask is told that it failed, as for any operation."""
        return isinstance(error, CapabilityNotFound) or (error.kind is Kind.FORBIDDEN and error.code != Forbidden.code)

    async def answer(self, caller: Caller, task: Task, incoming: Incoming) -> None:
        """Go on with a task that was handed over and waits for somebody."""
        operation, arguments = await self._operation_of(task, incoming)
        await self._gate.run(operation, caller, arguments, idempotency_key=incoming.idempotency_key)

    async def answered(self, caller: Caller, task: Task, incoming: Incoming) -> bool:
        """Check whether this answer was taken before, under the idempotency key that it has."""
        key = incoming.idempotency_key
        if key is None:
            return False
        operation, arguments = await self._operation_of(task, incoming)
        return await self._gate.find_done(operation, caller, arguments, idempotency_key=key) is not None

    async def _operation_of(self, task: Task, incoming: Incoming) -> tuple[AnyOperation, Json]:
        """Return the operation that an answer is, with its arguments, whatever has become of the task since."""
        parts = incoming.message["parts"]
        data = next((part["data"] for part in parts if part["kind"] == "data"), None)
        text = "\n".join(part["text"] for part in parts if part["kind"] == "text")
        answer: Json = {"input": {"answer": data if data is not None else text}}
        fields = cast("Json", data) if isinstance(data, dict) else answer
        if "decision" in fields and (approvals := await self._approvals_of(task)):
            return DECIDE_ONE, {"approval_id": approvals[0], **fields}
        return operations.PROVIDE_INPUT, {**fields, "task_id": str(task.id)}

    async def _approvals_of(self, task: Task) -> list[str]:
        """Return the approvals that a task waits for, or that it waited for last."""
        asked = [task.message] if task.message else []
        return _approvals_in(asked) or _approvals_in(await self._tasks.questions(task.tenant_id, task.id))


class GatedRefusals:
    """Refused answers to turns of conversations, on record like refused operations."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def record(self, caller: Caller, ref: str, error: DragomanError) -> None:
        """Record that a message to this task was refused, and why."""
        await self._gate.record_refusal(SEND_MESSAGE, caller, ref, error)


def _approvals_in(messages: Sequence[Json]) -> list[str]:
    """Return the approvals that the first of these messages which names any asks for."""
    parts: list[Json] = [part for message in messages for part in message["parts"]]
    asked: list[Json] = [part["data"] for part in parts if isinstance(part.get("data"), dict)]
    return next((data["approvals"] for data in asked if "approvals" in data), list[str]())


def build_delegation(
    handlers: Handlers,
    dbs: tuple[Database, Database],
    core: EngineCore,
    trail: AuditTrail,
    deciders: Deciders,
    access: TaskAccess,
) -> Delegation:
    """Bind the operations on tasks; `dbs` are the application's and the core's.

    A process that `performs` claims actions; turns are claimed by every process that serves an agent.
    """
    db, core_db = dbs
    engine, views, tasks = core.engine, TaskViewStore(db), TaskStore(db)
    submissions = Submissions(
        engine,
        views,
        actors=deciders.actors,
        registry=deciders.registry,
        governance=deciders.governance,
        resources=deciders.resources,
        access=access,
        trail=trail,
        retries=core.retries,
        new_id=new_id,
    )
    service = DelegationService(submissions, views=views, tasks=tasks, access=access)
    control = TaskControl(
        engine,
        core.store,
        core.effects,
        # In the transaction that the gate has opened for the core.
        TaskViews(TaskStore(core_db, scope=_whole), TaskViewStore(core_db, scope=_whole), access),
        db=core_db,
        actors=deciders.actors,
        registry=deciders.registry,
        governance=deciders.governance,
        trail=trail,
        retries=core.retries,
        new_id=new_id,
    )
    core.ledger.on_late_outcome(control.effect_settled)
    needs = ActionDependencies(
        deciders.actors, deciders.registry, deciders.governance, deciders.resources, core.ledger, access, trail,
        core.retries, new_id,
    )  # fmt: skip
    if core.performs:
        engine.serve(ActionLane(engine, needs))
    handlers.add(operations.SUBMIT, service.submit)
    handlers.add(operations.STATUS, service.status)
    handlers.add(operations.LIST, service.list_tasks)
    handlers.add(operations.EVENTS, service.events)
    handlers.add(operations.RETRY, control.retry)
    handlers.add(operations.CANCEL, control.cancel)
    handlers.add(operations.PROVIDE_INPUT, control.provide_input)
    handlers.add(operations.TRANSITION, control.transition, prepare=control.check_move)
    handlers.add(operations.RETRY_MANY, control.retry_many)
    handlers.add(operations.CANCEL_MANY, control.cancel_many)
    return Delegation(service, control)


def _whole(tenant: UUID) -> Scope:
    """The core sees all tenants; every statement names its own."""
    del tenant
    return Scope()


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
