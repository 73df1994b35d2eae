"""What governance asks of the knowledge: the policies, as they were written at one revision."""

from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.governance.policies import Policy

_SHORTEST: Final = 7


@dataclass(frozen=True, slots=True)
class PolicyBook:
    """All accepted policies of a tenant at one revision, and what is wrong with those that could not be read."""

    revision: str
    policies: tuple[Policy, ...]
    problems: tuple[tuple[str, str], ...] = ()

    def find(self, policy_id: str) -> Policy | None:
        """The policy of this id, if it is in force."""
        return next((policy for policy in self.policies if policy.id == policy_id), None)

    @property
    def has_rules_on_actions(self) -> bool:
        """Whether any policy could forbid an action."""
        return any(policy.cedar or policy.unreadable for policy in self.policies)

    def has(self, policy: Policy, version: str) -> bool:
        """Whether a policy is in force as somebody knew it: at this version of its own, or at this revision of all."""
        if version in (policy.version, self.revision):
            return True
        return len(version) >= _SHORTEST and (policy.version.startswith(version) or self.revision.startswith(version))


class Policies(Protocol):
    """Where policies are kept."""

    async def read(self, caller: Caller, revision: str | None = None) -> PolicyBook:
        """The policies at a revision; the newest when none is named.

        Raises:
            UnknownRevision: there is no such revision.
        """
        ...

    async def in_force(self, tenant: UUID) -> PolicyBook:
        """The newest policies of a tenant; while nothing changes, it costs no more than a look at a row."""
        ...


class ActionInputs(Protocol):
    """Knows what actions take; the registry of workers does."""

    async def find_fields(self, caller: Caller, action: str) -> frozenset[str] | None:
        """Return the names of the input fields of an action; None where they are not known."""
        ...

    async def complete_input(self, caller: Caller, action: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return an input as the worker of the action will read it, with what it leaves out; else as it was given."""
        ...
