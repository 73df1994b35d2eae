"""What a policy may say on approvals: which actions need them, how many, by whom, and for how long they hold.

approvals: {actions: ["signature.*"], quorum: 2, roles: [org_admin], people_only: true, valid_hours: 48}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from dragoman.context import Role

MOST_APPROVALS: Final = 20
MOST_HOURS: Final = 24 * 366
_KNOWN: Final = frozenset({"actions", "quorum", "roles", "people_only", "valid_hours"})


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """One policy's demand. What it leaves open (None) is for the other policies to say."""

    actions: tuple[str, ...]
    quorum: int = 1
    roles: frozenset[Role] | None = None
    people_only: bool = False
    valid_hours: int | None = None

    def covers(self, action: str) -> bool:
        """Whether it speaks of this action."""
        return any(fnmatchcase(action, pattern) for pattern in self.actions)


# The policy that comes with the server: every sensitive action needs its approval. Whoever changes the rule gives it
# another version.
BUILT_IN_ID: Final = "contracts-approval"
BUILT_IN_VERSION: Final = "1"
BUILT_IN: Final = ApprovalRule(
    actions=("*",), quorum=1, roles=frozenset({Role.ORG_ADMIN, Role.OPERATOR}), people_only=True, valid_hours=7 * 24
)
# What a rule is taken for that cannot be read.
STRICTEST: Final = ApprovalRule(("*",), quorum=2, people_only=True)


def read_rule(said: object) -> tuple[ApprovalRule, list[str]]:
    """The rule, and what is wrong with it; what cannot be understood is taken in the stricter way."""
    complaints: list[str] = []
    if not isinstance(said, Mapping):
        return STRICTEST, ["approvals must be a mapping; it is taken to demand two for every action"]
    given = cast("Mapping[str, Any]", said)
    complaints += [f"approvals.{name} is not known" for name in sorted(map(str, given.keys() - _KNOWN))]
    rule = ApprovalRule(
        actions=_actions(given.get("actions"), complaints),
        quorum=_number(given, "quorum", MOST_APPROVALS, strictest=STRICTEST.quorum, complaints=complaints) or 1,
        roles=_roles(given.get("roles"), complaints),
        people_only=_flag(given.get("people_only", False), complaints),
        valid_hours=_number(given, "valid_hours", MOST_HOURS, strictest=24, complaints=complaints),
    )
    return rule, complaints


def _actions(said: object, complaints: list[str]) -> tuple[str, ...]:
    patterns = [said] if isinstance(said, str) else said
    if isinstance(patterns, Sequence) and patterns:
        found = [one for one in cast("Sequence[object]", patterns) if isinstance(one, str) and one]
        if len(found) == len(cast("Sequence[object]", patterns)):
            return tuple(found)
    complaints.append("approvals.actions must be a list of actions such as signature.*; it is taken as every action")
    return ("*",)


def _roles(said: object, complaints: list[str]) -> frozenset[Role] | None:
    if said is None:
        return None
    words = [said] if isinstance(said, str) else said
    named = [str(one) for one in cast("Sequence[object]", words)] if isinstance(words, Sequence) else [str(said)]
    known = {role.value for role in Role}
    if unknown := sorted(set(named) - known):
        complaints.append(f"approvals.roles names {', '.join(unknown)}, and the roles are {', '.join(sorted(known))}")
    found = frozenset(Role(name) for name in named if name in known)
    if not found:
        complaints.append("approvals.roles names no role that there is; it is taken as org_admin")
    return found or frozenset({Role.ORG_ADMIN})


def _flag(said: object, complaints: list[str]) -> bool:
    if isinstance(said, bool):
        return said
    complaints.append(f"approvals.people_only is {said!r} and must be true or false; it is taken as true")
    return True


def _number(given: Mapping[str, Any], name: str, most: int, *, strictest: int, complaints: list[str]) -> int | None:
    said = given.get(name)
    if said is None:
        return None
    if isinstance(said, int) and not isinstance(said, bool) and 1 <= said <= most:
        return said
    complaints.append(f"approvals.{name} is {said!r} and must be from 1 to {most}; it is taken as {strictest}")
    return strictest
