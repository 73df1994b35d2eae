"""How an envelope becomes a task: every guard in its order, then one row among many."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from uuid import UUID

from dragoman.context import Caller, PrincipalType, Role, current_request
from dragoman.errors import DragomanError, IdempotencyConflict
from dragoman.infra.db import check_key
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.tasks import events
from dragoman.services.tasks.actions.attempt import WAITS_FOR_APPROVAL
from dragoman.services.tasks.actions.envelope import ActorType, Envelope, fifo_key_of
from dragoman.services.tasks.actions.errors import ActorMismatch, CapabilityNotFound, DeadlinePassed
from dragoman.services.tasks.actions.ports import Documents, Governance, Judgment, Phase, Registry, Route
from dragoman.services.tasks.actions.results import asking, read_input, result_artifacts
from dragoman.services.tasks.engine.batching import Batcher
from dragoman.services.tasks.engine.engine import Engine
from dragoman.services.tasks.engine.retries import RetryPolicy
from dragoman.services.tasks.engine.steps import ActionBirth, LaneName
from dragoman.services.tasks.events import Event, Json
from dragoman.services.tasks.identity import caller_json
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.shapes import Origin
from dragoman.services.tasks.store_views import TaskViewStore
from dragoman.services.workers.profile import check_stated_profile
from dragoman.services.workers.protocol import Performed


class Submissions:
    """Takes envelopes in. The same key of the same actor is the same task, from whichever door at whichever moment."""

    def __init__(
        self,
        engine: Engine,
        views: TaskViewStore,
        *,
        registry: Registry,
        governance: Governance,
        documents: Documents,
        trail: AuditTrail,
        retries: RetryPolicy,
        new_id: Callable[[], UUID],
    ) -> None:
        self._engine = engine
        self._views = views
        self._registry = registry
        self._governance = governance
        self._documents = documents
        self._trail = trail
        self._retries = retries
        self._new_id = new_id
        self._lookups: Batcher[tuple[UUID, str, str], tuple[UUID, bytes] | None] = Batcher(self._look_up)

    async def take(self, caller: Caller, envelope: Envelope, origin: Origin | None) -> tuple[UUID, ActionBirth | None]:
        """Return the task that the envelope is: new, as it was accepted, or None beside the id of an earlier one.

        Raises:
            DragomanError: a guard refused it, and nothing is queued.
        """
        check_stated_profile()
        check_actor(caller, envelope)
        check_key(envelope.idempotency_key)
        digest = envelope.digest()
        # Most are new, and storing one says whether its key was free: only what a guard refuses is looked for first.
        try:
            route, judgment = await self._judge(caller, envelope)
        except DragomanError:
            if envelope.request.dry_run or (earlier := await self._find(caller, envelope, digest)) is None:
                raise
            return earlier, None
        birth = self._birth(caller, envelope, route, judgment, digest, origin)
        if await self._engine.add_action(birth):
            return birth.id, birth
        earlier = await self._find(caller, envelope, digest)
        if earlier is None:
            raise RuntimeError("a key was taken by a task that is not there")
        return earlier, None

    async def _judge(self, caller: Caller, envelope: Envelope) -> tuple[Route, Judgment]:
        route = await self._registry.find(caller, envelope.action)
        if route is None:
            raise CapabilityNotFound(envelope.action)
        judgment = await self._governance.judge(
            caller, envelope, route.capability, task_id=None, phase=Phase.SUBMISSION
        )
        await self._documents.check(caller, envelope, route.capability)
        read_input(route.capability, envelope.input)
        deadline = envelope.request.deadline
        if deadline is not None and deadline <= datetime.now(UTC):
            raise DeadlinePassed(deadline.isoformat())
        return route, judgment

    async def _find(self, caller: Caller, envelope: Envelope, digest: bytes) -> UUID | None:
        found = await self._lookups.put((caller.tenant, envelope.actor.id, envelope.idempotency_key))
        if found is None:
            return None
        task_id, before = found
        if before != digest:
            raise IdempotencyConflict(envelope.idempotency_key, task_id=str(task_id))
        return task_id

    def _birth(
        self,
        caller: Caller,
        envelope: Envelope,
        route: Route,
        judgment: Judgment,
        digest: bytes,
        origin: Origin | None,
    ) -> ActionBirth:
        task_id, request = self._new_id(), current_request()
        correlation_id = envelope.request.correlation_id or (request.correlation_id if request else "") or str(task_id)
        waits_for = list(judgment.waits_for) or None
        state, steps, message, artifacts = self._beginning(envelope, route, judgment, waits_for)
        parked = state is State.INPUT_REQUIRED
        kept = envelope.model_dump(mode="json", exclude_none=True)
        return ActionBirth(
            tenant=caller.tenant,
            id=task_id,
            canonical=task_id,
            run=1,
            lane=LaneName.ACTION,
            skill="task",
            alias=origin.alias if origin else None,
            context_id=(origin.context_id if origin else None) or str(self._new_id()),
            owner=caller.subject,
            state=state.value,
            metadata={"action": envelope.action, "correlation_id": correlation_id},
            caller=caller_json(caller),
            events=[*events.accepted(envelope.actor.id), *steps],
            message=message,
            history=[origin.message] if origin else [],
            artifacts=artifacts,
            attempt=0,
            # One that waits for approvals is claimed only when its time is over.
            queue=state is State.QUEUED or (parked and envelope.request.deadline is not None),
            run_at=envelope.request.deadline if parked else None,
            # One that waits for a person does not hold up the others of its key.
            fifo_key=None if parked else fifo_key_of(kept),
            actor=envelope.actor.id,
            key=envelope.idempotency_key,
            digest=digest.hex(),
            action=envelope.action,
            matter=envelope.matter.id,
            correlation_id=correlation_id,
            max_attempts=self._retries.max_attempts,
            deadline=envelope.request.deadline,
            dry_run=envelope.request.dry_run,
            waits_for=waits_for if parked else None,
            governance=judgment.snapshot,
            envelope=kept,
            _record=self._record(caller, envelope, route, task_id, digest),
        )

    def _beginning(
        self, envelope: Envelope, route: Route, judgment: Judgment, waits_for: list[str] | None
    ) -> tuple[State, list[Event], Json | None, list[Json]]:
        """Return the state of a new task, with the steps to it, its message and its artifacts."""
        if envelope.request.dry_run:
            would: Json = {"worker": route.worker.name, "capability": f"{envelope.action}@{route.capability.version}"}
            would |= {"waits_for": waits_for} if waits_for else {}
            performed = Performed({"dry_run": True, "would": would})
            path = (State.VALIDATED, State.QUEUED, State.IN_PROGRESS, State.SUCCEEDED)
            steps: list[Event] = [
                events.status(before, after, reason="dry run: nothing was done") for before, after in pairwise(path)
            ]
            return State.SUCCEEDED, steps, None, result_artifacts(envelope.action, performed, judgment.snapshot)
        if waits_for:
            _, message = asking(self._new_id, WAITS_FOR_APPROVAL, {"approvals": waits_for})
            step = events.status(State.VALIDATED, State.INPUT_REQUIRED, reason=WAITS_FOR_APPROVAL, message=message)
            return State.INPUT_REQUIRED, [step], message, []
        return State.QUEUED, [events.status(State.VALIDATED, State.QUEUED, by=envelope.actor.id)], None, []

    def _record(self, caller: Caller, envelope: Envelope, route: Route, task_id: UUID, digest: bytes) -> Line:
        details = {"action": envelope.action, "actor": envelope.actor.id, "matter": envelope.matter.id}
        entry = Entry(
            "task.submit",
            Outcome.DONE,
            resource=str(task_id),
            input_sha256=digest.hex(),
            details={**details, "worker": route.worker.name},
        )
        return self._trail.write(caller, entry)

    async def _look_up(self, asked: Sequence[tuple[UUID, str, str]]) -> Sequence[tuple[UUID, bytes] | None]:
        tenants: dict[UUID, list[tuple[str, str]]] = {}
        for tenant, actor, key in asked:
            tenants.setdefault(tenant, []).append((actor, key))
        pages = await asyncio.gather(*(self._views.find_keys(tenant, pairs) for tenant, pairs in tenants.items()))
        found = dict(zip(tenants, pages, strict=True))
        return [found[tenant].get((actor, key)) for tenant, actor, key in asked]


def check_actor(caller: Caller, envelope: Envelope) -> None:
    """Compare the actor with the credentials.

    Raises:
        ActorMismatch: they do not agree.
    """
    actor = envelope.actor
    if actor.id != caller.subject:
        raise ActorMismatch(f"the actor is {actor.id!r}, and the credentials are those of {caller.subject!r}")
    if actor.tenant_id is not None and actor.tenant_id not in (str(caller.tenant), caller.tenant_slug):
        raise ActorMismatch("the actor's tenant is not that of the credentials")
    if actor.type is ActorType.HUMAN and caller.type is not PrincipalType.USER:
        raise ActorMismatch(f"actor.type is human, but the credentials belong to a {caller.type.value}: set actor.type")
    if actor.on_behalf_of is not None and caller.type is PrincipalType.USER and not _may_stand_in(caller):
        raise ActorMismatch("only an agent, a service or an administrator acts for another")


def _may_stand_in(caller: Caller) -> bool:
    return bool(caller.roles & {Role.ORG_ADMIN, Role.SUPER_ADMIN})
