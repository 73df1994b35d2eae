"""What can go wrong with approvals and policies; every refusal has a code of its own."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from dragoman.errors import Conflict, Forbidden
from dragoman.services.tasks.actions.errors import ResourceMoved


class ApprovalInvalid(Forbidden):
    """A reference names no approval that can be relied on; `reason` is NOT_FOUND or WITHDRAWN."""

    code = "APPROVAL_INVALID"

    def __init__(self, ref: str, *, reason: str) -> None:
        super().__init__(f"{ref!r} is no approval to rely on", approval_id=ref, reason=reason)


class ApprovalPending(Conflict):
    """It is not decided yet."""

    code = "APPROVAL_PENDING"

    def __init__(self, approval_id: UUID) -> None:
        super().__init__("the approval is not decided yet", approval_id=str(approval_id))


class ApprovalExpired(Conflict):
    """Its time is over."""

    code = "APPROVAL_EXPIRED"

    def __init__(self, approval_id: UUID, expired_at: str) -> None:
        super().__init__(
            f"the approval expired at {expired_at}; ask for another",
            approval_id=str(approval_id),
            expired_at=expired_at,
        )


class ApprovalUsed(Conflict):
    """Another task has used it; an approval is good for one."""

    code = "APPROVAL_USED"

    def __init__(self, approval_id: UUID, by: str | None) -> None:
        super().__init__("the approval was used already; ask for another", approval_id=str(approval_id), used_by=by)


class ApprovalDenied(Forbidden):
    """Somebody who may decide said no."""

    code = "APPROVAL_DENIED"

    def __init__(self, approval_id: UUID) -> None:
        super().__init__("the approval was denied", approval_id=str(approval_id))


class ApprovalStale(Conflict):
    """What it was given for, or a policy it was given under, is another by now; `reason` says which."""

    code = "APPROVAL_STALE"

    def __init__(self, approval_id: UUID, *, reason: str, **details: Any) -> None:
        what = "a policy behind it has changed" if reason == "POLICY_MOVED" else "what it is about has changed"
        super().__init__(
            f"{what} since the approval was asked for", approval_id=str(approval_id), reason=reason, **details
        )


class TargetMoved(ApprovalStale, ResourceMoved):
    """The resource is not what was approved: its version, its content or a fact about it has changed."""

    def __init__(self, approval_id: UUID, **details: Any) -> None:
        super().__init__(approval_id, reason="TARGET_MOVED", **details)


RESOURCE_MOVED: Final = "resource moved"


def stale(approval_id: UUID, because: str | None) -> ApprovalStale:
    """Return the error for an approval that went stale, by what it was closed for."""
    if because is not None and because.startswith(RESOURCE_MOVED):
        return TargetMoved(approval_id, because=because)
    return ApprovalStale(approval_id, reason="POLICY_MOVED", because=because)


class ApprovalMismatch(Conflict):
    """It is for something else than what is asked or was seen."""

    code = "APPROVAL_MISMATCH"

    def __init__(self, approval_id: UUID, *, approved: str, asked: str) -> None:
        super().__init__(
            "the approval is for something else", approval_id=str(approval_id), digest=approved, given_digest=asked
        )


class SelfApproval(Forbidden):
    """Nobody decides what they asked for, do, or have done for them."""

    code = "SELF_APPROVAL"

    def __init__(self, approval_id: UUID, subject: str) -> None:
        super().__init__(
            f"{subject} is a party to this and cannot decide it", approval_id=str(approval_id), subject=subject
        )


class AuthorApproval(Forbidden):
    """Nobody decides on what they wrote, whoever asked for it."""

    code = "AUTHOR_APPROVAL"

    def __init__(self, approval_id: UUID, subject: str) -> None:
        super().__init__(
            f"{subject} wrote a part of this and cannot decide it", approval_id=str(approval_id), subject=subject
        )


class ApprovalReserved(Forbidden):
    """Others are to decide: `reason` is PEOPLE_ONLY or ROLE."""

    code = "APPROVAL_RESERVED"

    def __init__(self, approval_id: UUID, *, reason: str, roles: Sequence[str]) -> None:
        whom = "people" if reason == "PEOPLE_ONLY" else f"the roles {', '.join(roles)}"
        super().__init__(
            f"this decision is reserved for {whom}", approval_id=str(approval_id), reason=reason, roles=list(roles)
        )


class ApprovalClosed(Conflict):
    """There is nothing left to decide, or not for this caller; `reason` is DECIDED or YOU_DECIDED."""

    code = "APPROVAL_CLOSED"

    def __init__(self, approval_id: UUID, state: str, *, reason: str = "DECIDED") -> None:
        told = "you have decided already" if reason == "YOU_DECIDED" else f"the approval is {state}"
        super().__init__(told, approval_id=str(approval_id), state=state, reason=reason)


class PolicyRefused(Forbidden):
    """A policy in force forbids the action, or leaves nobody who could approve it."""

    code = "POLICY_REFUSED"

    def __init__(self, action: str, policies: list[dict[str, str]], *, reason: str) -> None:
        names = ", ".join(one["id"] for one in policies)
        super().__init__(f"{action} is refused by {names}", action=action, policies=policies, reason=reason)


class PolicyStale(Conflict):
    """A policy that was referred to is not in force, or not in that version."""

    code = "POLICY_STALE"

    def __init__(self, policies: list[dict[str, str | None]]) -> None:
        names = ", ".join(str(one["id"]) for one in policies)
        super().__init__(f"not in force as it was referred to: {names}", policies=policies)
