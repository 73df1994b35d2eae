"""Which approvals an action needs: our own policy and the tenant's, and the stricter of them wherever they differ."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from dragoman.context import Role
from dragoman.services.approvals.errors import PolicyRefused, PolicyStale
from dragoman.services.governance.approval_rules import BUILT_IN, BUILT_IN_ID, BUILT_IN_VERSION, ApprovalRule
from dragoman.services.governance.policies import Policy
from dragoman.services.governance.ports import PolicyBook
from dragoman.services.tasks.actions.envelope import PolicyRef

ACCEPTANCE: Final = "knowledge.accept"
MERGE: Final = "knowledge.sync"
# Each of them can end a policy: a proposal may rewrite or supersede what is in force.
CHANGES: Final = frozenset({ACCEPTANCE, "knowledge.deprecate", "knowledge.supersede", MERGE})


@dataclass(frozen=True, slots=True)
class Requirement:
    """What all policies together demand of an approval."""

    policies: Mapping[str, str]
    quorum: int
    roles: frozenset[Role]
    people_only: bool
    valid_for: timedelta

    def as_missing(self, field: str, request: dict[str, Any], *, then: str) -> dict[str, Any]:
        """What to tell a caller who has no approval: who must give it, and how it is asked for and used."""
        return {
            "field": field,
            "how": f"send `request` to approval_request (POST /api/approvals), {then}",
            "request": request,
            "quorum": self.quorum,
            "roles": sorted(self.roles),
            "people_only": self.people_only,
        }


def rules_for(book: PolicyBook, action: str) -> list[tuple[Policy, ApprovalRule]]:
    """The tenant's own policies that demand an approval for the action."""
    return [
        (policy, policy.approvals)
        for policy in book.policies
        if policy.approvals is not None and _covers(policy.approvals, action)
    ]


def _covers(rule: ApprovalRule, action: str) -> bool:
    """Check whether a rule speaks of an action: one on a change of knowledge speaks of all changes of it."""
    return rule.covers(action) or (action in CHANGES and any(map(rule.covers, CHANGES)))


def requirement(
    book: PolicyBook, action: str, *, sensitive: bool, approvers: frozenset[Role] | None = None
) -> Requirement:
    """What is demanded. An action that no policy speaks of is approved as our own policy says.

    `approvers` are the roles that the action itself reserves its approval for.

    Raises:
        PolicyRefused: the policies leave no role that could decide.
    """
    own = rules_for(book, action)
    rules = [rule for _, rule in own]
    policies = {policy.id: policy.version for policy, _ in own}
    if sensitive or not rules:
        rules.append(BUILT_IN)
        policies[BUILT_IN_ID] = BUILT_IN_VERSION
    named_roles = [rule.roles for rule in rules if rule.roles is not None]
    roles = _intersection([*named_roles, *([approvers] if approvers is not None else [])])
    if not roles:
        named = [{"id": name, "version": version} for name, version in policies.items()]
        raise PolicyRefused(action, named, reason="NOBODY_MAY_DECIDE")
    hours = [rule.valid_hours for rule in rules if rule.valid_hours is not None]
    return Requirement(
        policies=policies,
        quorum=max(rule.quorum for rule in rules),
        roles=roles,
        people_only=any(rule.people_only for rule in rules),
        valid_for=timedelta(hours=min(hours, default=BUILT_IN.valid_hours or 0)),
    )


def versions_of(book: PolicyBook, refs: Iterable[PolicyRef]) -> dict[str, str]:
    """The policies that somebody refers to, each in the version in force.

    Raises:
        PolicyStale: one of them is not in force, or in another version.
    """
    found: dict[str, str] = {}
    stale: list[dict[str, str | None]] = []
    for ref in refs:
        version = _version_in_force(book, ref)
        if version is None:
            stale.append({"id": ref.id, "version": ref.version, "in_force": _in_force(book, ref.id)})
        else:
            found[ref.id] = version
    if stale:
        raise PolicyStale(stale)
    return found


def moved(book: PolicyBook, action: str, policies: Mapping[str, str]) -> list[str]:
    """Which policies are no longer as they were when an approval was asked for under these, or came since."""
    gone = [name for name, version in policies.items() if _in_force(book, name) != version]
    new = [policy.id for policy, _ in rules_for(book, action) if policy.id not in policies]
    return [*gone, *new]


def _in_force(book: PolicyBook, policy_id: str) -> str | None:
    if policy_id == BUILT_IN_ID:
        return BUILT_IN_VERSION
    policy = book.find(policy_id)
    return policy.version if policy is not None else None


def _version_in_force(book: PolicyBook, ref: PolicyRef) -> str | None:
    in_force = _in_force(book, ref.id)
    if ref.version is None or in_force is None or ref.version == in_force:
        return in_force
    policy = book.find(ref.id) if ref.id != BUILT_IN_ID else None
    return in_force if policy is not None and book.has(policy, ref.version) else None


def _intersection(groups: Iterable[frozenset[Role]]) -> frozenset[Role]:
    found: frozenset[Role] | None = None
    for group in groups:
        found = group if found is None else found & group
    return BUILT_IN.roles or frozenset() if found is None else found
