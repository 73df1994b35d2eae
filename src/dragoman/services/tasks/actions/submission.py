"""How an envelope becomes a task: every guard in its order, then one row among many."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from uuid import UUID

from dragoman.context import Caller, current_request
from dragoman.errors import DragomanError, IdempotencyConflict
from dragoman.infra.batching import Batcher
from dragoman.infra.db import check_key
from dragoman.services.audit.models import Detail, Outcome
from dragoman.services.audit.rows import Columns, Rows
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.tasks import events
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tasks.actions.actors import Acting, Actors, acting_in
from dragoman.services.tasks.actions.attempt import WAITS_FOR_APPROVAL
from dragoman.services.tasks.actions.envelope import Envelope, fifo_key_of
from dragoman.services.tasks.actions.errors import CapabilityNotFound, DeadlinePassed
from dragoman.services.tasks.actions.ports import Governance, Judgment, Phase, Registry, Resources, Route, Target
from dragoman.services.tasks.actions.results import asking, read_input, result_artifacts
from dragoman.services.tasks.engine.engine import Engine
from dragoman.services.tasks.engine.retries import RetryPolicy
from dragoman.services.tasks.engine.steps import ActionBirth, LaneName
from dragoman.services.tasks.engine.store_rows import delegation_columns, governance_details, task_columns
from dragoman.services.tasks.events import Json, Loggable
from dragoman.services.tasks.identity import caller_json
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.shapes import Origin
from dragoman.services.tasks.store_views import TaskViewStore
from dragoman.services.workers.profile import check_stated_profile
from dragoman.services.workers.protocol import Performed


class Submissions:
    """Takes envelopes in. The same key of the same actor is the same task, from whichever door at whichever moment."""

    def __init__(  # noqa: PLR0913 - what it asks of others, each by its name
        self,
        engine: Engine,
        views: TaskViewStore,
        *,
        actors: Actors,
        registry: Registry,
        governance: Governance,
        resources: Resources,
        access: TaskAccess,
        trail: AuditTrail,
        retries: RetryPolicy,
        new_id: Callable[[], UUID],
    ) -> None:
        self._engine = engine
        self._views = views
        self._actors = actors
        self._registry = registry
        self._governance = governance
        self._resources = resources
        self._access = access
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
        envelope, acting = await self._actors.check(caller, envelope)
        check_key(envelope.idempotency_key)
        digest = envelope.digest()
        # Most are new, and storing one says whether its key was free: only what a guard refuses is looked for first.
        try:
            route, judgment = await self._judge(caller, envelope, acting)
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

    async def _judge(self, caller: Caller, envelope: Envelope, acting: Acting | None) -> tuple[Route, Judgment]:
        route = await self._registry.find(caller, envelope.action)
        if route is None:
            raise CapabilityNotFound(envelope.action)
        self._access.check_action(caller, envelope.action, route.capability.permissions)
        judgment = await self._governance.judge(
            caller, envelope, route.capability, acting=acting, task_id=None, phase=Phase.SUBMISSION
        )
        # A judgment that holds approvals has looked at the resource.
        if judgment.resource is None:
            target = Target(
                envelope.action, envelope.resource, envelope.input, route.capability.is_sensitive(envelope.input)
            )
            await self._resources.bind(caller, target)
        read_input(route.capability, envelope.input)
        deadline = envelope.request.deadline
        if deadline is not None and await self._engine.is_past(deadline):
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
        acting = acting_in(judgment.snapshot, kept)
        rows: Rows = {
            f"tasks/{task_id}": task_columns(state, owner=caller.subject, artifacts=artifacts),
            f"delegations/{task_id}": _delegation(task_id, envelope, judgment, kept),
        }
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
            metadata={
                "action": envelope.action,
                "correlation_id": correlation_id,
                **(acting.shown() if acting is not None else {}),
            },
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
            _record=self._record(caller, envelope, route, digest, judgment, rows, task_id, acting),
        )

    def _beginning(
        self, envelope: Envelope, route: Route, judgment: Judgment, waits_for: list[str] | None
    ) -> tuple[State, list[Loggable], Json | None, list[Json]]:
        """Return the state of a new task, with the steps to it, its message and its artifacts."""
        if envelope.request.dry_run:
            would: Json = {"worker": route.worker.name, "capability": f"{envelope.action}@{route.capability.version}"}
            would |= {"waits_for": waits_for} if waits_for else {}
            performed = Performed({"dry_run": True, "would": would})
            path = (State.VALIDATED, State.QUEUED, State.IN_PROGRESS, State.SUCCEEDED)
            steps: list[Loggable] = [
                events.StatusEvent(before, after, reason="dry run: nothing was done")
                for before, after in pairwise(path)
            ]
            return State.SUCCEEDED, steps, None, result_artifacts(envelope.action, performed, judgment.snapshot)
        if waits_for:
            about: Json = {"approvals": waits_for, "requests": list(judgment.asked)}
            _, message = asking(self._new_id, WAITS_FOR_APPROVAL, about)
            step = events.StatusEvent(State.VALIDATED, State.INPUT_REQUIRED, reason=WAITS_FOR_APPROVAL, message=message)
            return State.INPUT_REQUIRED, [step], message, []
        return State.QUEUED, [events.StatusEvent(State.VALIDATED, State.QUEUED, by=envelope.actor.id)], None, []

    def _record(
        self,
        caller: Caller,
        envelope: Envelope,
        route: Route,
        digest: bytes,
        judgment: Judgment,
        rows: Rows,
        task_id: UUID,
        acting: Acting | None,
    ) -> Line:
        resource, actor = envelope.resource, envelope.actor
        details: dict[str, Detail] = {
            "action": envelope.action,
            "actor": actor.id,
            "matter": envelope.matter.id,
            "worker": route.worker.name,
            "resource": f"{resource.type}/{resource.id}",
            **governance_details(judgment.snapshot),
        }
        if acting is not None:
            details |= acting.details()
        if resource.version is not None:
            details["resource_version"] = resource.version
        if resource.sha256 is not None:
            details["resource_sha256"] = resource.sha256
        entry = Entry(
            "task.submit",
            Outcome.DONE,
            resource=str(task_id),
            input_sha256=digest.hex(),
            details=details,
            rows=rows,
        )
        return self._trail.write(caller, entry)

    async def _look_up(self, asked: Sequence[tuple[UUID, str, str]]) -> Sequence[tuple[UUID, bytes] | None]:
        tenants: dict[UUID, list[tuple[str, str]]] = {}
        for tenant, actor, key in asked:
            tenants.setdefault(tenant, []).append((actor, key))
        pages = await asyncio.gather(*(self._views.find_keys(tenant, pairs) for tenant, pairs in tenants.items()))
        found = dict(zip(tenants, pages, strict=True))
        return [found[tenant].get((actor, key)) for tenant, actor, key in asked]


def _delegation(task_id: UUID, envelope: Envelope, judgment: Judgment, kept: Json) -> Columns:
    return delegation_columns(
        canonical=task_id,
        run=1,
        actor=envelope.actor.id,
        action=envelope.action,
        matter=envelope.matter.id,
        governance=judgment.snapshot,
        envelope=kept,
    )
