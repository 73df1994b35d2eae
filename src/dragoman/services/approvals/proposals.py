"""Approvals for accepting knowledge: where a policy demands them for `knowledge.accept`, roles are not enough."""

from typing import Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.approvals.consent import Consent, Use
from dragoman.services.approvals.errors import ApprovalPending, AuthorApproval
from dragoman.services.approvals.models import ApprovalState, Verdict
from dragoman.services.approvals.ports import Authors
from dragoman.services.approvals.requirements import requirement, rules_for
from dragoman.services.governance.ports import Policies
from dragoman.services.tasks.actions.envelope import Resource
from dragoman.services.tasks.actions.errors import GovernanceContextRequired

ACTION: Final = "knowledge.accept"
# Knowledge belongs to no matter; approvals for it are found under this name.
MATTER: Final = "knowledge"


class ProposalConsent:
    """Binds the acceptance of a proposal to an approval of exactly what is proposed, by others than its authors."""

    def __init__(self, consent: Consent, policies: Policies, authors: Authors) -> None:
        self._consent = consent
        self._policies = policies
        self._authors = authors

    async def check_proposal(self, caller: Caller, item_id: str, content: str, approval_id: UUID | None) -> None:
        """Hold it against what policy demands, and use the approval up; to be called in the unit that accepts.

        Raises:
            GovernanceContextRequired: a policy demands an approval, and none is named; the details say how to get it.
            ApprovalPending: it is not decided yet.
            AuthorApproval: somebody approved it who wrote a part of it.
            DragomanError: it is for something else, used, expired, denied, stale, or by who accepts.
        """
        book = await self._policies.in_force(caller.tenant)
        resource = Resource.model_validate({"type": MATTER, "id": item_id, "version": content})
        if approval_id is None:
            if not rules_for(book, ACTION):
                return
            shown = resource.model_dump(exclude_none=True)
            request = {"action": ACTION, "resource": shown, "matter_id": MATTER, "input": {}}
            needed = requirement(book, ACTION, sensitive=True)
            then = "have it decided, then accept with its approval_id"
            raise GovernanceContextRequired(ACTION, [needed.as_missing("approval_id", request, then=then)])
        use = Use(ACTION, resource, MATTER, {}, frozenset({caller.subject}), user=f"{MATTER}:{item_id}@{content}")
        [row] = await self._consent.hold(caller, book, [str(approval_id)], use, consume=True)
        if row["state"] == ApprovalState.PENDING:
            raise ApprovalPending(approval_id)
        # Whoever decided elsewhere, where the repository is not, was not known to be an author.
        approved = [one["by"] for one in row["decisions"] if one["decision"] == Verdict.APPROVE]
        if own := await self._authors.among(caller.tenant, content, approved):
            raise AuthorApproval(approval_id, own[0])
