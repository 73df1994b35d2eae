"""What is given, held against one set of policies. Pure, so that it can be repeated under another set."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dragoman.services.governance.actions import ActionFacts, Asker, refusals
from dragoman.services.governance.drift import fingerprint, short_hash
from dragoman.services.governance.models import Breach, CheckedContext, LayerIds, Location
from dragoman.services.governance.policies import LAYERS, Demand, Policy, demands_in_force
from dragoman.services.governance.ports import PolicyBook
from dragoman.services.knowledge.constraints.effort import TooMuchToCheck
from dragoman.services.knowledge.constraints.models import (
    Constraint,
    Dependency,
    Rule,
    Severity,
    SourceFile,
    Subject,
    Target,
    Violation,
)
from dragoman.services.knowledge.errors import CheckTooLarge

# The constraint that a policy breaks which cannot be read.
UNREADABLE: Final = "unreadable_document"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was in force, what of it had something to judge, and what is violated."""

    policies: list[Policy]
    demands: list[Demand]
    applied: frozenset[int]
    violations: list[Violation]
    on_actions: list[Breach]

    def breaches(self, violations: Iterable[Violation] | None = None) -> list[Breach]:
        """The violations as they are shown; all of them when none are picked."""
        authors = {policy.id: policy for policy in self.policies}
        chosen = self.violations if violations is None else violations
        return [*(_breach(one, authors[one.rule.item_id]) for one in chosen), *self.on_actions]


def policies_for(book: PolicyBook, target_layer: str, ids: LayerIds) -> list[Policy]:
    """Those of the layer and of all above it; of one organisation, team or project where that is named."""
    named = {"org": ids.org_id, "team": ids.team_id, "project": ids.project_id}
    deepest = LAYERS.index(target_layer)
    return [
        policy
        for policy in book.policies
        if LAYERS.index(policy.layer) <= deepest
        and (named.get(policy.layer) is None or policy.layer_id == named[policy.layer])
    ]


def judge(
    book: PolicyBook, context: CheckedContext, asker: Asker, *, target_layer: str, ids: LayerIds, whole: bool
) -> Judgement:
    """Hold it against the policies. Of a part, that something is missing is said only where the part shows it all.

    Raises:
        CheckTooLarge: it takes too long.
    """
    # The engine's libraries are an extra, and an idle server does not hold them in memory.
    from dragoman.services.knowledge.constraints.engine import check  # noqa: PLC0415

    policies = policies_for(book, target_layer, ids)
    demands = demands_in_force(policies)
    rules = [Rule(one.policy.id, one.policy.title, _exact(one), one.severity) for one in demands]
    try:
        report = check(rules, _subject(context))
    except TooMuchToCheck as error:
        raise CheckTooLarge(limit_s=error.limit_s) from error
    complete = _complete_targets(context, whole=whole)
    missing = [one for one in report.unmet if one.rule.constraint.target in complete]
    applied = report.applied | {rules.index(one.rule) for one in missing}
    return Judgement(
        policies=policies,
        demands=demands,
        applied=applied,
        violations=[*report.violations, *missing],
        on_actions=[*on_action(policies, context, asker), *_on_references(book, policies, context)],
    )


def _exact(demand: Demand) -> Constraint:
    return demand.constraint.model_copy(update={"severity": demand.severity})


def _subject(context: CheckedContext) -> Subject:
    files = [SourceFile(one.path, one.content) for one in context.files]
    if context.path is not None:
        files.append(SourceFile(context.path, context.content or ""))
    return Subject(
        files=files,
        dependencies=[Dependency(one.name, one.version) for one in context.dependencies or ()],
        imports=context.imports or (),
        config=context.config or {},
    )


def _complete_targets(context: CheckedContext, *, whole: bool) -> frozenset[Target]:
    """Of what everything is there, so that what is not there is missing."""
    if whole:
        return frozenset(Target)
    given = {
        Target.DEPENDENCY: context.dependencies,
        Target.IMPORT: context.imports,
        Target.CONFIG: context.config,
    }
    return frozenset(target for target, value in given.items() if value is not None)


def _breach(violation: Violation, policy: Policy) -> Breach:
    rule, place = violation.rule, violation.place
    return Breach(
        policy_id=policy.id,
        policy_title=policy.title,
        layer=policy.layer,
        mandatory=policy.mandatory,
        constraint=rule.constraint.wording,
        severity=rule.effective_severity,
        message=violation.message,
        location=Location(file=place.file, line=place.line) if place.file else None,
        fingerprint=fingerprint(violation),
    )


def on_action(policies: Sequence[Policy], context: CheckedContext, asker: Asker) -> list[Breach]:
    """What the action of a context breaks of the rules on actions; a policy that cannot be read allows nothing."""
    unreadable = [
        _plain_breach(one, constraint=UNREADABLE, severity=one.severity, message=f"it cannot be read: {one.unreadable}")
        for one in policies
        if one.unreadable is not None
    ]
    if context.action is None:
        return unreadable
    return [
        *unreadable,
        *(
            _plain_breach(
                refusal.policy,
                constraint=f"cedar {refusal.statement}",
                severity=refusal.policy.severity,
                message=f"{context.action} is forbidden by {refusal.statement}",
            )
            for refusal in refusals(policies, asker, _facts(context, context.action))
        ),
    ]


def _facts(context: CheckedContext, action: str) -> ActionFacts:
    resource = context.resource.model_dump(exclude_none=True) if context.resource is not None else {}
    return ActionFacts(
        action,
        path=context.path or "",
        resource=resource,
        matter=context.matter.id if context.matter is not None else "",
        on_behalf_of=context.on_behalf_of or "",
        input=context.input or {},
    )


def _on_references(book: PolicyBook, policies: Sequence[Policy], context: CheckedContext) -> list[Breach]:
    """Mandatory policies that the author did not know of, and those that have moved on since."""
    if context.policy_refs is None:
        return []
    known = {ref.id: ref.version for ref in context.policy_refs}
    found: list[Breach] = []
    for policy in policies:
        if policy.id not in known:
            if policy.mandatory and policy.unreadable is None:
                told = "this mandatory policy was not followed knowingly"
                found.append(
                    _plain_breach(policy, constraint="missing_mandatory_policy", severity=Severity.WARN, message=told)
                )
        elif (version := known[policy.id]) is not None and not book.has(policy, version):
            told = f"followed at {version[:12]}, and the policies are at {book.revision[:12]} by now"
            found.append(
                _plain_breach(policy, constraint="stale_policy_reference", severity=Severity.WARN, message=told)
            )
    return found


def _plain_breach(policy: Policy, *, constraint: str, severity: Severity, message: str) -> Breach:
    return Breach(
        policy_id=policy.id,
        policy_title=policy.title,
        layer=policy.layer,
        mandatory=policy.mandatory,
        constraint=constraint,
        severity=severity,
        message=message,
        fingerprint=short_hash(policy.id, constraint),
    )
