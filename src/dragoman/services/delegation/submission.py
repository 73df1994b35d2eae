"""How an envelope becomes a task: every guard in its order, then one row among many."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from dragoman.context import Caller, PrincipalType, Role, current_request
from dragoman.errors import DragomanError, IdempotencyConflict
from dragoman.infra.db import check_key
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.delegation.attempts import NEVER, WAITS_FOR_APPROVAL, asking, read_input, result_artifacts
from dragoman.services.delegation.envelope import ActorType, Envelope
from dragoman.services.delegation.errors import ActorMismatch, CapabilityNotFound, DeadlinePassed
from dragoman.services.delegation.models import Origin
from dragoman.services.delegation.ports import Documents, Governance, Judgment, Phase, Registry, Route
from dragoman.services.delegation.profile import check_stated_profile
from dragoman.services.delegation.retries import Patience
from dragoman.services.delegation.store import Accepted, DelegationStore
from dragoman.services.delegation.store_read import TaskViews
from dragoman.services.delegation.workers import Json, Performed
from dragoman.services.tasks.grouped import Grouped
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.runs import caller_json


@dataclass(frozen=True, slots=True)
class Entrance:
    """What stands before the queue."""

    registry: Registry
    governance: Governance
    documents: Documents
    trail: AuditTrail
    patience: Patience
    new_id: Callable[[], UUID]


class Submissions:
    """Takes envelopes in. The same key of the same actor is the same task, from whichever door at whichever moment."""

    def __init__(self, entrance: Entrance, store: DelegationStore, views: TaskViews) -> None:
        self._entrance = entrance
        self._views = views
        self._store = store
        self._lookups: Grouped[tuple[UUID, str, str], tuple[UUID, bytes] | None] = Grouped(self._look_up)
        self._adds: Grouped[tuple[Accepted, Line], bool] = Grouped(self._add)

    async def take(self, caller: Caller, envelope: Envelope, origin: Origin | None) -> tuple[UUID, Accepted | None]:
        """The task that the envelope is: new, as it was accepted; or None beside the id of the one that it was before.

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
        accepted = self._accept(caller, envelope, route, judgment, digest, origin)
        details = {"action": envelope.action, "actor": envelope.actor.id, "matter": envelope.matter.id}
        entry = Entry(
            "task.submit",
            Outcome.DONE,
            resource=str(accepted.id),
            input_sha256=accepted.digest,
            details={**details, "worker": route.worker.name},
        )
        line = self._entrance.trail.write(caller, entry)
        if await self._adds.put((accepted, line)):
            return accepted.id, accepted
        earlier = await self._find(caller, envelope, digest)
        if earlier is None:
            raise RuntimeError("a key was taken by a task that is not there")
        return earlier, None

    async def _judge(self, caller: Caller, envelope: Envelope) -> tuple[Route, Judgment]:
        entrance = self._entrance
        route = await entrance.registry.find(caller, envelope.action)
        if route is None:
            raise CapabilityNotFound(envelope.action)
        judgment = await entrance.governance.judge(
            caller, envelope, route.capability, task_id=None, phase=Phase.SUBMISSION
        )
        await entrance.documents.check(caller, envelope, route.capability)
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

    def _accept(
        self,
        caller: Caller,
        envelope: Envelope,
        route: Route,
        judgment: Judgment,
        digest: bytes,
        origin: Origin | None,
    ) -> Accepted:
        task_id, patience, request = self._entrance.new_id(), self._entrance.patience, current_request()
        correlation_id = envelope.request.correlation_id or (request.correlation_id if request else "") or str(task_id)
        accepted = Accepted(
            tenant=caller.tenant,
            id=task_id,
            canonical=task_id,
            run=1,
            alias=origin.alias if origin else None,
            context_id=(origin.context_id if origin else None) or str(self._entrance.new_id()),
            owner=caller.subject,
            state=State.QUEUED.value,
            metadata={"action": envelope.action, "correlation_id": correlation_id},
            caller=caller_json(caller),
            events=begun(envelope.actor.id),
            history=[origin.message] if origin else [],
            actor=envelope.actor.id,
            key=envelope.idempotency_key,
            digest=digest.hex(),
            action=envelope.action,
            matter=envelope.matter.id,
            correlation_id=correlation_id,
            max_attempts=patience.max_attempts,
            deadline=envelope.request.deadline,
            dry_run=envelope.request.dry_run,
            governance=judgment.snapshot,
            envelope=envelope.model_dump(mode="json", exclude_none=True),
            run_at=datetime.now(UTC),
        )
        if envelope.request.dry_run:
            _rehearse(accepted, route, judgment)
        elif judgment.waits_for:
            self._park(accepted, judgment)
        else:
            accepted.events.append({"kind": "status", "from": "validated", "to": "queued", "by": envelope.actor.id})
        return accepted

    def _park(self, accepted: Accepted, judgment: Judgment) -> None:
        waits_for = list(judgment.waits_for)
        _, accepted.message = asking(self._entrance.new_id, WAITS_FOR_APPROVAL, {"approvals": waits_for})
        accepted.state, accepted.waits_for = State.INPUT_REQUIRED.value, waits_for
        accepted.run_at = accepted.deadline or NEVER
        event = {"kind": "status", "from": "validated", "to": "input_required", "reason": WAITS_FOR_APPROVAL}
        accepted.events.append({**event, "message": accepted.message})

    async def _look_up(self, asked: Sequence[tuple[UUID, str, str]]) -> Sequence[tuple[UUID, bytes] | None]:
        tenants: dict[UUID, list[tuple[str, str]]] = {}
        for tenant, actor, key in asked:
            tenants.setdefault(tenant, []).append((actor, key))
        pages = await asyncio.gather(*(self._views.find_keys(tenant, pairs) for tenant, pairs in tenants.items()))
        found = dict(zip(tenants, pages, strict=True))
        return [found[tenant].get((actor, key)) for tenant, actor, key in asked]

    async def _add(self, tasks: Sequence[tuple[Accepted, Line]]) -> Sequence[bool]:
        stored = await self._store.add(tasks)
        return [task.id in stored for task, _ in tasks]


def begun(actor: str) -> list[Json]:
    """How every task that was handed over begins."""
    return [
        {"kind": "status", "to": "requested", "by": actor},
        {"kind": "status", "from": "requested", "to": "validated"},
    ]


def _rehearse(accepted: Accepted, route: Route, judgment: Judgment) -> None:
    """A task that came through every guard and is done at once, without anything having been done."""
    would = {"worker": route.worker.name, "capability": f"{accepted.action}@{route.capability.version}"}
    would |= {"waits_for": list(judgment.waits_for)} if judgment.waits_for else {}
    performed = Performed({"dry_run": True, "would": would})
    accepted.state = State.SUCCEEDED.value
    accepted.artifacts = result_artifacts(accepted.action, performed, judgment.snapshot)
    reason = "dry run: nothing was done"
    for before, after in (("validated", "queued"), ("queued", "in_progress"), ("in_progress", "succeeded")):
        accepted.events.append({"kind": "status", "from": before, "to": after, "reason": reason})


def check_actor(caller: Caller, envelope: Envelope) -> None:
    """Hold the actor against the credentials.

    Raises:
        ActorMismatch: they do not agree.
    """
    actor = envelope.actor
    if actor.id != caller.subject:
        raise ActorMismatch(f"the actor is {actor.id!r}, and the credentials are those of {caller.subject!r}")
    if actor.tenant_id is not None and actor.tenant_id not in (str(caller.tenant), caller.tenant_slug):
        raise ActorMismatch("the actor's tenant is not that of the credentials")
    if actor.type is ActorType.HUMAN and caller.type is not PrincipalType.USER:
        raise ActorMismatch(f"the actor is said to be human, and the credentials are those of a {caller.type.value}")
    if actor.on_behalf_of is not None and caller.type is PrincipalType.USER and not _may_stand_in(caller):
        raise ActorMismatch("only an agent, a service or an administrator acts for another")


def _may_stand_in(caller: Caller) -> bool:
    return bool(caller.roles & {Role.ORG_ADMIN, Role.SUPER_ADMIN})
