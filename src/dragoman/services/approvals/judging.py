"""Whether an action that was handed over may be done: by the policies in force and the approvals that it names."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.approvals.consent import Consent, Use
from dragoman.services.approvals.errors import PolicyRefused
from dragoman.services.approvals.models import ApprovalState
from dragoman.services.approvals.ports import RulesOnActions
from dragoman.services.approvals.records import Record
from dragoman.services.approvals.requirements import Requirement, requirement, rules_for, versions_of
from dragoman.services.governance.ports import Policies, PolicyBook
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.tasks.actions.errors import GovernanceContextRequired
from dragoman.services.tasks.actions.ports import Judgment, Phase
from dragoman.services.workers.protocol import Capability

Json = dict[str, Any]


class Judge:
    """Judges at submission and again at execution. An action without rules costs a look at the time of a file."""

    def __init__(self, consent: Consent, policies: Policies, rules: RulesOnActions, *, authority: str) -> None:
        self._consent = consent
        self._policies = policies
        self._rules = rules
        self._authority = authority
        self._free = Judgment({"authority": authority})

    async def judge(
        self, caller: Caller, envelope: Envelope, capability: Capability, *, task_id: UUID | None, phase: Phase
    ) -> Judgment:
        """Hold the action against the policies in force and the approvals it names.

        At execution the approvals are used up by the task, all or none; a task that used them before goes on with them.
        A dry run is judged alike and uses nothing up.

        Raises:
            PolicyRefused: a policy forbids it.
            PolicyStale: a policy is referred to that is not in force, or in another version.
            GovernanceContextRequired: policies or approvals are missing; the details say which, and how to get them.
            DragomanError: an approval is for something else, used, expired, denied, stale, or decided by a party.
        """
        book = await self._policies.in_force(caller.tenant)
        given, real = envelope.governance, not envelope.request.dry_run
        if book.policies:
            await self._check_allowed(caller, book, envelope, keep=real and phase is Phase.SUBMISSION)
        demanded = capability.sensitive or bool(rules_for(book, envelope.action))
        if not demanded and not given.policy_refs and not given.approval_refs:
            return self._free
        referred = versions_of(book, given.policy_refs)
        if demanded:
            needed = requirement(book, envelope.action, sensitive=capability.sensitive)
            if missing := _missing(envelope, needed, referred):
                raise GovernanceContextRequired(envelope.action, missing)
        use = _use(caller, envelope, task_id)
        rows = await self._consent.hold(
            caller, book, given.approval_refs, use, consume=real and phase is Phase.EXECUTION
        )
        snapshot: Json = {
            "policies": [{"id": name, "version": version} for name, version in sorted(referred.items())],
            "revision": book.revision,
            "approvals": [_shown(row) for row in rows],
            "digest": use.digest,
            "authority": self._authority,
        }
        waits_for = [str(row["approval_id"]) for row in rows if row["state"] == ApprovalState.PENDING]
        return Judgment(snapshot, tuple(waits_for))

    async def _check_allowed(self, caller: Caller, book: PolicyBook, envelope: Envelope, *, keep: bool) -> None:
        refused = await self._rules.check_action(caller, envelope.action, keep=keep)
        if not refused:
            return
        named = [
            {"id": one.policy_id, "version": found.version if (found := book.find(one.policy_id)) else "",
             "statement": one.constraint}
            for one in refused
        ]  # fmt: skip
        raise PolicyRefused(envelope.action, named, reason="FORBIDDEN")


def _use(caller: Caller, envelope: Envelope, task_id: UUID | None) -> Use:
    actor = envelope.actor
    return Use(
        action=envelope.action,
        resource=envelope.resource,
        matter_id=envelope.matter.id,
        input=envelope.input,
        parties=frozenset(one for one in (caller.subject, actor.id, actor.on_behalf_of) if one),
        user=str(task_id) if task_id is not None else None,
    )


def _missing(envelope: Envelope, needed: Requirement, referred: Mapping[str, str]) -> list[Json]:
    """What the caller has to add, as they can use it."""
    missing: list[Json] = []
    policies = [{"id": name, "version": version} for name, version in needed.policies.items() if name not in referred]
    if policies:
        how = "read these policies, then name each of them in governance.policy_refs, as {id, version} or id@version"
        missing.append({"field": "governance.policy_refs", "policies": policies, "how": how})
    if not envelope.governance.approval_refs:
        then = "then name its approval_id in governance.approval_refs; the task waits until it is decided"
        missing.append(needed.as_missing("governance.approval_refs", _request_for(envelope), then=then))
    return missing


def _request_for(envelope: Envelope) -> Json:
    """What to ask an approval with, for exactly this envelope."""
    asked: Json = {
        "action": envelope.action,
        "resource": envelope.resource.model_dump(mode="json", exclude_none=True),
        "matter_id": envelope.matter.id,
        "input": envelope.input,
        "actor": envelope.actor.id,
    }
    return asked | ({"on_behalf_of": envelope.actor.on_behalf_of} if envelope.actor.on_behalf_of else {})


def _shown(row: Record) -> Json:
    """As it is kept with the task: who decided what, when, and what they saw."""
    decisions = [{**one, "at": one["at"].isoformat()} for one in row["decisions"]]
    for one in decisions:
        del one["approval_id"]
    return {
        "id": str(row["approval_id"]),
        "digest": row["digest"],
        "requested_by": row["requested_by"],
        "policies": row["policies"],
        "decisions": decisions,
    }
