"""Workers and callers that tests of delegation arrange again and again."""

from dataclasses import dataclass, field
from time import time
from typing import Any
from uuid import UUID, uuid4

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.operations import Input
from dragoman.services.workers.protocol import Assignment, Capability, Performed


class Anything(Input):
    """What the workers of tests take."""

    subject: str = ""


@dataclass(frozen=True, slots=True)
class Hand:
    """A worker that keeps what it was given."""

    name: str
    capabilities: tuple[Capability, ...]
    given: list[Assignment] = field(default_factory=list[Assignment])

    async def perform(self, assignment: Assignment) -> Performed:
        """Say that it was done."""
        self.given.append(assignment)
        return Performed({"by": self.name})


def hand(name: str, *actions: str, **options: Any) -> Hand:
    """A worker with these actions."""
    return Hand(name, tuple(Capability(action, action, Anything, **options) for action in actions))


def caller_of(tenant: UUID | None = None, *, subject: str = "ada") -> Caller:
    """An administrator of a tenant, of a new one unless it is named."""
    return Caller(
        tenant=TenantId(tenant or uuid4()),
        tenant_slug="acme",
        subject=subject,
        type=PrincipalType.USER,
        roles=frozenset({Role.ORG_ADMIN}),
        credential="token",
        issued_at=time(),
    )


class NoGrants:
    """Nobody acts for another."""

    async def find(self, caller: Caller, on_behalf_of: str, action: str) -> UUID | None:
        """Find none."""
        del caller, on_behalf_of, action
        return None
