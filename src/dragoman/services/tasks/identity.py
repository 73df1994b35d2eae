"""Who asked, as a task keeps it: whoever goes on with the task acts for them."""

from typing import Any
from uuid import UUID

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.services.tasks.models import Json, Task


def caller_json(caller: Caller) -> Json:
    """Return a caller as it is kept with a task."""
    return {
        "tenant_slug": caller.tenant_slug,
        "subject": caller.subject,
        "type": caller.type.value,
        "roles": sorted(role.value for role in caller.roles),
        "scopes": sorted(caller.scopes) if caller.scopes is not None else None,
        "credential": caller.credential,
        "issued_at": caller.issued_at,
        "plan": caller.plan,
    }


def caller_of(task: Task) -> Caller:
    """Return who the task belongs to."""
    return read_caller(task.tenant_id, task.caller)


def read_caller(tenant: UUID, kept: dict[str, Any]) -> Caller:
    """Return a caller that was kept."""
    return Caller(
        tenant=TenantId(tenant),
        tenant_slug=kept["tenant_slug"],
        subject=kept["subject"],
        type=PrincipalType(kept["type"]),
        roles=frozenset(Role(role) for role in kept["roles"]),
        scopes=frozenset(kept["scopes"]) if kept["scopes"] is not None else None,
        credential=kept["credential"],
        issued_at=kept["issued_at"],
        plan=kept["plan"],
    )
