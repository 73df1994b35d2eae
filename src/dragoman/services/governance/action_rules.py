"""What policies say of actions, to be read: a refusal names a policy, also the one that comes with the server."""

from dragoman.services.governance import models as m
from dragoman.services.governance.approval_rules import BUILT_IN, BUILT_IN_ID, BUILT_IN_VERSION, ApprovalRule
from dragoman.services.governance.ports import PolicyBook

_TITLE = "Sensitive actions need an approval"


def action_rules_in(book: PolicyBook) -> list[m.ActionRules]:
    """Return the policies that speak of actions, the built-in one first."""
    built_in = m.ActionRules(
        policy_id=BUILT_IN_ID,
        version=BUILT_IN_VERSION,
        policy_title=_TITLE,
        built_in=True,
        approvals=_demand(BUILT_IN),
        cedar=None,
        unreadable=None,
    )
    own = [
        m.ActionRules(
            policy_id=policy.id,
            version=policy.version,
            policy_title=policy.title,
            built_in=False,
            approvals=_demand(policy.approvals) if policy.approvals is not None else None,
            cedar=policy.cedar or None,
            unreadable=policy.unreadable or None,
        )
        for policy in book.policies
        if policy.approvals is not None or policy.cedar or policy.unreadable
    ]
    return [built_in, *own]


def _demand(rule: ApprovalRule) -> m.ApprovalDemand:
    return m.ApprovalDemand(
        actions=list(rule.actions),
        quorum=rule.quorum,
        roles=sorted(role.value for role in rule.roles) if rule.roles is not None else None,
        people_only=rule.people_only,
        valid_hours=rule.valid_hours,
    )
