"""Which rules are in force: policies of all layers from the company down, each as its own and its parent's terms say.

A policy may extend one of a more general layer. How the two meet is the child's to say, unless the parent is
mandatory: then every rule of the parent stays, at least as severe as it was, whatever the child says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dragoman.services.governance.approval_rules import ApprovalRule
from dragoman.services.knowledge.constraints.models import RANK, Constraint, Severity
from dragoman.services.knowledge.items import Layer

# From the most general to the most specific.
LAYERS: Final = tuple(layer.value for layer in Layer)
Key = tuple[str, str, str, str | None, str | None, tuple[str, ...]]


class Mode(StrEnum):
    """Whether more specific layers may lessen a policy."""

    OPTIONAL = "optional"
    MANDATORY = "mandatory"


class Merge(StrEnum):
    """What becomes of the rules of the policy that this one extends."""

    OVERRIDE = "override"
    MERGE = "merge"
    INTERSECT = "intersect"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as it was written at one revision of the knowledge."""

    id: str
    title: str
    layer: str
    layer_id: str | None
    constraints: tuple[Constraint, ...] = ()
    severity: Severity = Severity.WARN
    mode: Mode = Mode.OPTIONAL
    merge: Merge = Merge.OVERRIDE
    extends: str | None = None
    cedar: str = ""
    approvals: ApprovalRule | None = None
    # Of its own document: other knowledge may change without making this another policy.
    version: str = ""
    # Why the document cannot be read. Such a policy forbids every action, and fails every check.
    unreadable: str | None = None
    path: str = ""

    @property
    def mandatory(self) -> bool:
        """Whether its rules stay, whatever a more specific layer says."""
        return self.mode is Mode.MANDATORY


@dataclass(frozen=True, slots=True)
class Demand:
    """One constraint in force, the policy that demands it, and how much it matters there."""

    policy: Policy
    constraint: Constraint
    severity: Severity

    @property
    def key(self) -> Key:
        """What is demanded, apart from how much it matters: two demands with one key are the same demand."""
        return key_of(self.constraint)


def key_of(constraint: Constraint) -> Key:
    """What makes two constraints one."""
    one = constraint
    return one.operator.value, one.target.value, one.pattern, one.path, one.version, tuple(sorted(one.applies_to))


def demands_in_force(policies: Iterable[Policy]) -> list[Demand]:
    """The rules of all policies after each has met the one that it extends, the most general first.

    A policy that extends one which is not there, or is no more general than itself, stands for itself.
    """
    found = {policy.id: policy for policy in policies}
    children: dict[str, list[Policy]] = {}
    roots: list[Policy] = []
    for policy in sorted(found.values(), key=lambda one: (LAYERS.index(one.layer), one.id)):
        parent = found.get(policy.extends or "")
        if parent is not None and LAYERS.index(parent.layer) < LAYERS.index(policy.layer):
            children.setdefault(parent.id, []).append(policy)
        else:
            roots.append(policy)
    in_force: list[Demand] = []
    for root in roots:
        in_force += _settled(_demands(root), root, children)
    return in_force


def ended_between(before: Sequence[Policy], after: Sequence[Policy]) -> list[Policy]:
    """Return the policies that have ended, changed, moved, or are lessened by a new one that extends them.

    A document that could not be read and now can has not ended: it begins.
    """
    was, now = set(map(_place, before)), set(map(_place, after))
    new = [policy for policy in after if _place(policy) not in was]
    replaced, extended = {policy.id for policy in new}, {policy.extends for policy in new}
    repaired = {policy.path for policy in new if policy.unreadable is None}
    return [
        policy
        for policy in before
        if not (policy.unreadable is not None and policy.path in repaired)
        and (_place(policy) not in now or policy.id in replaced or (policy.id in extended and not policy.mandatory))
    ]


def _place(policy: Policy) -> tuple[str, str, str]:
    return policy.id, policy.version, policy.path


def _settled(held: list[Demand], policy: Policy, children: dict[str, list[Policy]]) -> list[Demand]:
    """What a family demands from this policy down; with several children, what any of them keeps is kept."""
    below = children.get(policy.id)
    if not below:
        return held
    return _united(*(_settled(_joined(held, child), child, children) for child in below))


def _joined(held: Sequence[Demand], child: Policy) -> list[Demand]:
    fixed = [demand for demand in held if demand.policy.mandatory]
    own = _demands(child)
    own_keys = {demand.key for demand in own}
    if child.merge is Merge.OVERRIDE:
        kept = own
    elif child.merge is Merge.MERGE:
        kept = [*(demand for demand in held if demand.key not in own_keys), *own]
    else:
        shared = {demand.key for demand in held}
        kept = [demand for demand in own if child.mandatory or demand.key in shared]
    return _united(fixed, kept)


def _united(*groups: Sequence[Demand]) -> list[Demand]:
    """All of them, each once, as severe as the severest; who demanded it first stays its author."""
    together: dict[Key, Demand] = {}
    for demand in (demand for group in groups for demand in group):
        known = together.setdefault(demand.key, demand)
        if RANK[demand.severity] > RANK[known.severity]:
            together[demand.key] = Demand(known.policy, known.constraint, demand.severity)
    return list(together.values())


def _demands(policy: Policy) -> list[Demand]:
    return [Demand(policy, one, one.severity or policy.severity) for one in policy.constraints]
