"""Whether an action that was handed over may be done: by the policies in force and the approvals that it names."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.services.approvals.consent import Consent, Use
from dragoman.services.approvals.errors import PolicyRefused
from dragoman.services.approvals.models import ApprovalState
from dragoman.services.approvals.ports import Asking, RulesOnActions, Spoils
from dragoman.services.approvals.records import Record
from dragoman.services.approvals.requirements import Requirement, requirement, rules_for, versions_of
from dragoman.services.approvals.targets import Targets, complete_input
from dragoman.services.governance.judging import UNREADABLE
from dragoman.services.governance.models import CheckedContext
from dragoman.services.governance.ports import Policies, PolicyBook
from dragoman.services.tasks.actions.actors import Acting
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.tasks.actions.errors import GovernanceContextRequired, ResourceMoved
from dragoman.services.tasks.actions.ports import Judgment, Phase, Target
from dragoman.services.workers.protocol import Capability

Json = dict[str, Any]


class Judge:
    """Judges at submission and again at execution. An action without rules costs a look at a row."""

    def __init__(
        self,
        consent: Consent,
        policies: Policies,
        rules: RulesOnActions,
        *,
        targets: Targets,
        asking: Asking,
        spoil: Spoils,
        authority: str,
    ) -> None:
        self._consent = consent
        self._policies = policies
        self._rules = rules
        self._targets = targets
        self._asking = asking
        self._spoil = spoil
        self._authority = authority
        self._free = Judgment({"authority": authority})

    async def judge(
        self,
        caller: Caller,
        envelope: Envelope,
        capability: Capability,
        *,
        acting: Acting | None,
        task_id: UUID | None,
        phase: Phase,
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
        if book.has_rules_on_actions:
            keep = real and phase is Phase.SUBMISSION
            await self._check_allowed(caller, book, _context(envelope, capability), keep=keep)
        sensitive = capability.is_sensitive(envelope.input)
        demanded = sensitive or bool(rules_for(book, envelope.action))
        if not demanded and not given.policy_refs and not given.approval_refs:
            return self._free if acting is None else Judgment({**self._free.snapshot, **acting.kept()})
        referred = versions_of(book, given.policy_refs)
        if demanded:
            approvers = capability.approvers_for(envelope.input)
            needed = requirement(book, envelope.action, sensitive=sensitive, approvers=approvers)
            if missing := _missing(envelope, needed, referred):
                raise GovernanceContextRequired(envelope.action, missing)
        executes = phase is Phase.EXECUTION
        try:
            use = await self._use(caller, envelope, capability, acting, task_id)
            rows = await self._consent.hold(caller, book, given.approval_refs, use, consume=real and executes)
        except (ResourceMoved, NotFound) as moved:
            # At submission the envelope may name another version than the approval does; an accepted one agreed.
            if executes:
                await self._spoil(caller.tenant, [UUID(ref) for ref in given.approval_refs], moved.message)
            raise
        snapshot: Json = {
            "policies": [{"id": name, "version": version} for name, version in sorted(referred.items())],
            "revision": book.revision,
            "approvals": [_shown(row) for row in rows],
            "digest": use.digest,
            "authority": self._authority,
            **(acting.kept() if acting is not None else {}),
        }
        pending = [row for row in rows if row["state"] == ApprovalState.PENDING]
        asked = [await self._asking(caller, row) for row in pending]
        return Judgment(snapshot, tuple(str(row["approval_id"]) for row in pending), use.resource, tuple(asked))

    async def _use(
        self,
        caller: Caller,
        envelope: Envelope,
        capability: Capability,
        acting: Acting | None,
        task_id: UUID | None,
    ) -> Use:
        target = Target(
            envelope.action, envelope.resource, envelope.input, capability.is_sensitive(envelope.input), task_id
        )
        bound = await self._targets.bind_resource(caller, target)
        return Use(
            action=envelope.action,
            resource=bound.resource,
            matter_id=envelope.matter.id,
            input=envelope.input,
            parties=frozenset({caller.subject, envelope.actor.id, *(acting.parties if acting is not None else ())}),
            user=str(task_id) if task_id is not None else None,
            facts=bound.facts,
        )

    async def _check_allowed(self, caller: Caller, book: PolicyBook, context: CheckedContext, *, keep: bool) -> None:
        refused = await self._rules.check_action(caller, book, context, keep=keep)
        if not refused:
            return
        named = [
            {"id": one.policy_id, "version": found.version if (found := book.find(one.policy_id)) else "",
             "statement": one.constraint, "message": one.message}
            for one in refused
        ]  # fmt: skip
        unreadable = any(one.constraint == UNREADABLE for one in refused)
        raise PolicyRefused(context.action or "", named, reason="POLICY_UNREADABLE" if unreadable else "FORBIDDEN")


def _context(envelope: Envelope, capability: Capability) -> CheckedContext:
    """What rules on actions see of an envelope."""
    context = CheckedContext.model_validate({"action": envelope.action})
    seen = {
        "resource": envelope.resource,
        "matter": envelope.matter,
        "on_behalf_of": envelope.actor.on_behalf_of,
        "input": complete_input(capability, envelope.input) or None,
    }
    return context.model_copy(update=seen)


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
