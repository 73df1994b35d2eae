"""Carries out approved recommendations: as tasks, with approvals by risk, and each version by one task at most."""

from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import DragomanError
from dragoman.infra.db import Database, scope_of
from dragoman.plugin import GateRun
from dragoman.services.tasks.actions.errors import GovernanceContextRequired
from dragoman.services.tasks.actions.ports import Bound, Target
from dragoman_costs.recommendations import models as m
from dragoman_costs.recommendations.errors import NotStarted, RecommendationMoved, UnderWay, WrongStatus
from dragoman_costs.recommendations.remediation import ACTION, PLANNER, RESOURCE_TYPE, Remediation, plan, remediation_of
from dragoman_costs.recommendations.service import RecommendationService, check_version, view
from dragoman_costs.recommendations.store import Record
from dragoman_costs.recommendations.store_executing import ExecutingStore

Json = dict[str, Any]
_ACTORS: Final = {"user": "human", "agent": "agent", "service": "service"}


class Executions:
    """Hands approved recommendations over, and binds their approvals to what they say."""

    def __init__(
        self, recommendations: RecommendationService, store: ExecutingStore, db: Database, run: GateRun
    ) -> None:
        self._recommendations = recommendations
        self._store = store
        self._db = db
        self._run = run

    async def execute(self, caller: Caller, request: m.ExecuteRecommendation) -> m.Execution:
        """Hand an approved recommendation over. What its risk or a policy demands is asked for, and waited for.

        Safe to repeat: until the task ends, the same attempt is the same task.

        Raises:
            NotFound: the tenant has no such recommendation.
            Stale: it is no longer at the expected version.
            WrongStatus: it is not approved, or has expired.
            UnderWay: somebody else has it carried out already.
        """
        scope = scope_of(caller)
        async with self._db.unit(scope):
            row = await self._recommendations.find(caller, request.recommendation_id, lock=True)
            check_version(row, request.expected_version)
            if row["status"] != m.RecommendationStatus.APPROVED:
                raise WrongStatus(row["status"], "approved ones")
            if row["executing_at"] is not None and (
                row["task_id"] is not None or row["executing_by"] != caller.subject
            ):
                raise UnderWay(row["task_id"])
            begun = await self._store.begin(scope, row["id"], caller.subject)
        try:
            submitted, approvers = await self._hand_over(caller, row, begun["attempt"])
        except DragomanError as refused:
            error = {"code": refused.code, "message": refused.message, **_public(refused.details)}
            await self._store.give_up(scope, row["id"], task_id=None, error=error, plan=None)
            raise
        await self._store.claim(scope, row["id"], submitted.task_id)
        return m.Execution(
            id=row["id"], task_id=submitted.task_id, state=submitted.state, risk=row["risk"],
            waits_for=submitted.waits_for, approvers=approvers, performed_by=await self._performer(caller),
        )  # fmt: skip

    async def _hand_over(self, caller: Caller, row: Record, attempt: int) -> tuple[Any, list[str]]:
        """Submit the envelope; where it needs policies or approvals, ask for these and submit it with them."""
        envelope = await self._envelope(caller, row, attempt)
        approvers: list[str] = []
        try:
            return await self._run("task.submit", caller, {"envelope": envelope}), approvers
        except GovernanceContextRequired as required:
            governance: Json = {"policy_refs": [], "approval_refs": []}
            for missing in required.details["missing"]:
                governance["policy_refs"] += missing.get("policies", [])
                if "request" in missing:
                    asked = missing["request"] | {"reason": f"{row['title']} ({row['risk']} risk)"[:2000]}
                    key = f"{envelope['idempotency_key']}:approval"
                    approval = await self._run("approval.request", caller, asked, idempotency_key=key)
                    governance["approval_refs"].append(str(approval.approval_id))
                    approvers = [role.value for role in approval.roles]
        submitted = await self._run("task.submit", caller, {"envelope": envelope | {"governance": governance}})
        return submitted, approvers

    async def _envelope(self, caller: Caller, row: Record, attempt: int) -> Json:
        account = await self._store.find_account(scope_of(caller), row["account_id"])
        return {
            "envelope_version": "1",
            "actor": {"id": caller.subject, "type": _ACTORS[caller.type.value]},
            "action": ACTION,
            "resource": {
                "type": RESOURCE_TYPE, "id": str(row["id"]), "version": str(row["version"]),
                "sha256": row["content_sha256"],
            },
            "matter": {"id": f"recommendation:{row['id']}", "title": row["title"][:500]},
            "idempotency_key": f"remediation:{row['id']}:{row['version']}:{attempt}",
            "input": remediation_of(row, account or ""),
        }  # fmt: skip

    async def _performer(self, caller: Caller) -> Any:
        """Return whether a worker of the tenant's carries it out, or a plan is made."""
        capabilities = await self._run("capability.list", caller, {"action": ACTION})
        performs = next((one.worker for one in capabilities.items if one.performs), PLANNER)
        return "plan" if performs == PLANNER else "worker"


class RecommendationResources:
    """Checks the resource of `remediation.execute`: that it is approved, started, and says what is to be done."""

    def __init__(self, recommendations: RecommendationService, store: ExecutingStore) -> None:
        self._recommendations = recommendations
        self._store = store

    def covers(self, target: Target) -> bool:
        """Check whether the target is a recommendation, or is to be treated as one."""
        return target.resource.type == RESOURCE_TYPE or target.action == ACTION

    async def bind(self, caller: Caller, target: Target) -> Bound:
        """Return the version and the hash of what is recommended, with its risk.

        Raises:
            NotFound: there is no such recommendation.
            RecommendationMoved: its version, its content or its input is another one.
            WrongStatus: it is not approved.
            NotStarted: it was handed over past recommendation_execute, or another task carries it out.
        """
        row = await self._find(caller, target)
        named = target.resource
        _hold("version", named.version, str(row["version"]))
        _hold("content", named.sha256, row["content_sha256"])
        if target.action == ACTION:
            if row["status"] != m.RecommendationStatus.APPROVED:
                raise WrongStatus(row["status"], "approved ones")
            if row["executing_at"] is None:
                raise NotStarted
            account = await self._store.find_account(scope_of(caller), row["account_id"])
            expected = remediation_of(row, account or "")
            if target.input != expected:
                raise RecommendationMoved(field="input", expected=target.input, current=expected)
            if target.task_id is not None and not await self._store.claim(scope_of(caller), row["id"], target.task_id):
                raise NotStarted
        return Bound(str(row["version"]), row["content_sha256"], {"risk": row["risk"]})

    async def show(self, caller: Caller, target: Target, *, since: str | None) -> Json:
        """Return the recommendation with its evidence, and the steps of a plan."""
        del since
        row = await self._find(caller, target)
        account = await self._store.find_account(scope_of(caller), row["account_id"])
        given = Remediation.model_validate(remediation_of(row, account or ""))
        return {"recommendation": view(row).model_dump(mode="json"), "steps": plan(given)}

    async def _find(self, caller: Caller, target: Target) -> Record:
        try:
            recommendation_id = UUID(target.resource.id)
        except ValueError:
            recommendation_id = UUID(int=0)
        return await self._recommendations.find(caller, recommendation_id)


def _hold(field: str, named: str | None, current: str) -> None:
    if named is not None and named != current:
        raise RecommendationMoved(field=field, expected=named, current=current)


def _public(details: Json) -> Json:
    return {"reason": details["reason"]} if isinstance(details.get("reason"), str) else {}
