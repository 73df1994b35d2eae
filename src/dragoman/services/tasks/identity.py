"""Who asked, as a task keeps it: whoever goes on with the task acts for them."""

from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.services.tasks.models import Json, Task

# Kept with the caller of a task of which the audit trail says nothing.
UNRECORDED: Final = {"recorded": False}


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
        "kind_unknown": caller.kind_unknown,
        "by_key": caller.by_key,
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
        kind_unknown=kept.get("kind_unknown", False),
        # A release that did not keep this may have kept a key: such a caller does not count as a person.
        by_key=kept.get("by_key", True),
    )
