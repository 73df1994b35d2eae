"""Rules of governance: who is asked what, what is recorded, what a project answers for."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.governance import models as m
from dragoman.services.governance.action_rules import action_rules_in
from dragoman.services.governance.actions import Asker
from dragoman.services.governance.drift import Drift, measure
from dragoman.services.governance.judging import Judgement, on_action, policies_for
from dragoman.services.governance.objections import Judges
from dragoman.services.governance.policies import demands_in_force
from dragoman.services.governance.ports import ActionInputs, Policies, PolicyBook
from dragoman.services.governance.ratchet import compare
from dragoman.services.governance.store import GovernanceStore, Kept, Record, unpacked
from dragoman.services.knowledge.items import Layer

_LONGEST_SUPPRESSION: Final = timedelta(days=366)
_ENOUGH_CONFIDENCE: Final = 0.7
_BANDS: Final = ((0.8, "critical"), (0.5, "high"), (0.2, "medium"))


class GovernanceService:
    """Judges by the policies that the knowledge holds, and remembers what it said."""

    def __init__(self, policies: Policies, store: GovernanceStore, *, new_id: Callable[[], UUID]) -> None:
        # The registry of workers comes later.
        self.inputs: ActionInputs | None = None
        self._policies = policies
        self._judges = Judges()
        self._store = store
        self._new_id = new_id

    async def validate(self, caller: Caller, given: m.Validate) -> m.Validation:
        """Hold something against the policies in force; the decision is recorded."""
        book = await self._policies.read(caller)
        asker, layer, context = Asker.of(caller), given.target_layer.value, await self._completed(caller, given.context)
        judgement = await self._judges.judge(caller, book, context, asker, layer, given.ids, whole=False)
        breaches = judgement.breaches()
        decision = self._new_id()
        await self._store.add_decision(
            scope_of(caller),
            Kept(
                decision, "validate", caller.subject, None, layer, _plain(given.ids), _plain(context),
                asker.as_json(), book.revision, not breaches, None, [_plain(one) for one in breaches],
            ),
        )  # fmt: skip
        return m.Validation(
            valid=not breaches,
            violations=breaches,
            policies=[policy.id for policy in judgement.policies],
            policy_version=book.revision,
            problems=_problems(book),
            decision_id=decision,
        )

    async def check_action(
        self, caller: Caller, book: PolicyBook, context: m.CheckedContext, *, keep: bool
    ) -> Sequence[m.Breach]:
        """What the action of a context breaks of the rules on actions.

        With `keep` the decision is recorded, so that it can be decided again under other policies.
        """
        asker = Asker.of(caller)
        breaches = on_action(book.policies, context, asker)
        if keep:
            await self._store.add_decision(
                scope_of(caller),
                Kept(
                    self._new_id(), "action", caller.subject, None, Layer.PROJECT.value, {}, _plain(context),
                    asker.as_json(), book.revision, not breaches, None, [_plain(one) for one in breaches],
                ),
            )  # fmt: skip
        return breaches

    async def check_drift(self, caller: Caller, given: m.CheckDrift) -> m.DriftReport:
        """Measure a project's drift, and say what has changed since the last time."""
        last = await self._store.find_last_check(scope_of(caller), given.project)
        context = given.context or _last_context(last)
        ids = given.ids.model_copy(update={"project_id": given.project})
        book = await self._policies.read(caller)
        asker = Asker.of(caller)
        judgement = await self._judges.judge(
            caller, book, context, asker, Layer.PROJECT.value, ids, whole=bool(context.files)
        )
        suppressions = await self._store.live_suppressions(scope_of(caller), given.project)
        drift = measure(judgement.demands, judgement.applied, judgement.violations, suppressions)
        breaches = judgement.breaches(drift.violations)
        decision = self._new_id()
        async with self._store.alone(scope_of(caller), given.project):
            accepted = await self._store.find_accepted(scope_of(caller), given.project)
            before = accepted["accepted"] if accepted else None
            ratchet = compare(before, breaches, context.paths, whole=bool(context.files))
            await self._store.add_decision(
                scope_of(caller),
                Kept(
                    decision, "drift", caller.subject, given.project, Layer.PROJECT.value, _plain(ids),
                    _plain(context), asker.as_json(), book.revision, not breaches, drift.score,
                    [_plain(one) for one in breaches], ratchet.accepted, [one.id for one in suppressions],
                ),
            )  # fmt: skip
        since = _since(last, breaches, book.revision)
        return m.DriftReport(
            project=given.project,
            drift_score=drift.score,
            band=_band(drift.score),
            applicable_weight=drift.applicable_weight,
            failed_weight=drift.failed_weight,
            confidence=drift.confidence,
            needs_review=drift.confidence < _ENOUGH_CONFIDENCE,
            passed=ratchet.passed,
            regressions=ratchet.regressions,
            accepted_at=accepted["at"] if accepted else None,
            violations=breaches,
            suppressed=_suppressed(judgement, drift),
            idle_rules=[m.IdleRule(policy_id=one.policy.id, constraint=one.constraint.wording) for one in drift.idle],
            since=since,
            policy_version=book.revision,
            problems=_problems(book),
            decision_id=decision,
        )

    async def suppress(self, caller: Caller, given: m.Suppress) -> m.Suppression:
        """Answer for a violation until a day.

        Raises:
            InvalidInput: the day is past, or more than a year away.
        """
        now = datetime.now(UTC)
        if not now < given.expires_at <= now + _LONGEST_SUPPRESSION:
            raise InvalidInput.of("expires_at", "must be in the future, and at most a year away")
        new = m.Suppression(
            id=self._new_id(),
            project=given.project,
            policy_id=given.policy_id,
            pattern=given.pattern,
            path=given.path,
            reason=given.reason,
            owner=given.owner or caller.subject,
            created_by=caller.subject,
            created_at=now,
            expires_at=given.expires_at,
        )
        return m.Suppression.model_validate(await self._store.add_suppression(scope_of(caller), new))

    async def suppressions(self, caller: Caller, wanted: m.ListSuppressions) -> Page[m.Suppression]:
        """What is answered for, newest first."""
        rows = await self._store.list_suppressions(
            scope_of(caller), wanted.limit + 1, wanted.cursor, wanted.project, ended=wanted.include_ended
        )
        return page([m.Suppression.model_validate(row) for row in rows], wanted.limit)

    async def unsuppress(self, caller: Caller, ref: m.SuppressionRef) -> m.Suppression:
        """End a suppression at once.

        Raises:
            NotFound: there is none, or it has been lifted.
        """
        row = await self._store.lift(scope_of(caller), ref.suppression_id)
        if row is None:
            raise NotFound("suppression", ref.suppression_id)
        return m.Suppression.model_validate(row)

    async def policies(self, caller: Caller, wanted: m.ListPolicies) -> m.PoliciesInForce:
        """The rules that hold for a layer."""
        book = await self._policies.read(caller, wanted.policy)
        demands = demands_in_force(policies_for(book, wanted.target_layer.value, wanted.ids))
        rules = [
            m.DemandView(
                policy_id=one.policy.id,
                policy_title=one.policy.title,
                layer=one.policy.layer,
                mandatory=one.policy.mandatory,
                severity=one.severity,
                constraint=one.constraint.wording,
                message=one.constraint.message,
            )
            for one in demands
        ]
        return m.PoliciesInForce(
            policy_version=book.revision, rules=rules, action_rules=action_rules_in(book), problems=_problems(book)
        )

    async def decisions(self, caller: Caller, wanted: m.ListDecisions) -> Page[m.Decision]:
        """What was decided, newest first."""
        rows = await self._store.list_decisions(scope_of(caller), wanted.limit + 1, wanted.cursor, wanted.project)
        return page([m.Decision.model_validate(row) for row in rows], wanted.limit)

    async def replay(self, caller: Caller, wanted: m.Replay) -> m.ReplayReport:
        """Decide again what was decided lately, under the policies of another revision; nothing is recorded.

        Who asked, in which roles, and what was suppressed are those of the decision.

        Raises:
            UnknownRevision: the knowledge has no such revision.
        """
        book = await self._policies.read(caller, wanted.policy)
        flips: list[m.Flip] = []
        replayed = not_replayable = 0
        for row in await self._store.list_recent(scope_of(caller), wanted.limit, wanted.since):
            kept = unpacked(row["context"])
            if kept is None:
                not_replayable += 1
                continue
            replayed += 1
            if (flip := await self._replayed(caller, book, row, m.CheckedContext.model_validate(kept))) is not None:
                flips.append(flip)
        return m.ReplayReport(
            policy_version=book.revision, replayed=replayed, not_replayable=not_replayable, flips=flips
        )

    async def _completed(self, caller: Caller, context: m.CheckedContext) -> m.CheckedContext:
        """Return a context with the input of its action as the worker will read it."""
        if self.inputs is None or context.action is None:
            return context
        read = await self.inputs.complete_input(caller, context.action, context.input or {})
        return context.model_copy(update={"input": read or None})

    async def _replayed(
        self, caller: Caller, book: PolicyBook, row: Record, context: m.CheckedContext
    ) -> m.Flip | None:
        asker = Asker(row["subject"], row["asker"]["type"], tuple(row["asker"]["roles"]))
        ids = m.LayerIds.model_validate(row["ids"])
        whole = row["kind"] == "drift" and bool(context.files)
        judgement = await self._judges.judge(caller, book, context, asker, row["target_layer"], ids, whole=whole)
        chosen = judgement.violations
        if row["project"] is not None:
            suppressions = await self._store.suppressions_then(scope_of(caller), row)
            chosen = measure(judgement.demands, judgement.applied, judgement.violations, suppressions).violations
        breaches = judgement.breaches(chosen)
        if row["valid"] == (not breaches):
            return None
        before = {one["fingerprint"] for one in row["breaches"]}
        now = {one.fingerprint for one in breaches}
        return m.Flip(
            decision_id=row["id"],
            at=row["at"],
            kind=row["kind"],
            subject=row["subject"],
            project=row["project"],
            was_valid=row["valid"],
            would_be_valid=not breaches,
            new=[one for one in breaches if one.fingerprint not in before],
            gone=sorted(before - now),
        )


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


def _problems(book: PolicyBook) -> list[m.Complaint]:
    return [m.Complaint(policy_id=policy_id, message=message) for policy_id, message in book.problems]


def _last_context(last: Record | None) -> m.CheckedContext:
    kept = unpacked(last["context"]) if last is not None else None
    return m.CheckedContext.model_validate(kept or {})


def _since(last: Record | None, breaches: list[m.Breach], revision: str) -> m.Since | None:
    if last is None:
        return None
    before = {one["fingerprint"] for one in last["breaches"]}
    now = {one.fingerprint for one in breaches}
    return m.Since(
        at=last["at"],
        drift_score=last["drift_score"],
        new=sorted(now - before),
        fixed=sorted(before - now),
        policies_changed=last["policy_version"] != revision,
    )


def _band(score: float) -> str:
    named = next((name for least, name in _BANDS if score >= least), None)
    return named or ("low" if score > 0 else "none")


def _suppressed(judgement: Judgement, drift: Drift) -> list[m.SuppressedBreach]:
    return [
        m.SuppressedBreach(
            violation=judgement.breaches([violation])[0],
            suppression_id=by.id,
            owner=by.owner,
            reason=by.reason,
            expires_at=by.expires_at,
        )
        for violation, by in drift.suppressed
    ]
