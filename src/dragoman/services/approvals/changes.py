"""Approvals for changing what is known: where a policy demands them for `knowledge.accept`, roles are not enough.

Ending an item, or merging a remote that ends a policy, needs the same consent as accepting one.
"""

from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.approvals.consent import Consent, Use
from dragoman.services.approvals.errors import ApprovalPending, AuthorApproval
from dragoman.services.approvals.models import ApprovalState, Verdict
from dragoman.services.approvals.ports import Authors
from dragoman.services.approvals.records import Record
from dragoman.services.approvals.requirements import ACCEPTANCE, MERGE, requirement, rules_for
from dragoman.services.governance.policies import ended_between
from dragoman.services.governance.ports import Policies, PolicyBook
from dragoman.services.knowledge.items import MAIN
from dragoman.services.knowledge.ports import Ending, Merging
from dragoman.services.tasks.actions.envelope import Resource
from dragoman.services.tasks.actions.errors import GovernanceContextRequired

# Knowledge belongs to no matter; approvals for it are found under this name.
MATTER: Final = "knowledge"


class KnowledgeConsent:
    """Binds a change of knowledge to an approval of exactly that change; to be called in the unit that makes it."""

    def __init__(self, consent: Consent, policies: Policies, authors: Authors) -> None:
        self._consent = consent
        self._policies = policies
        self._authors = authors

    async def check_proposal(self, caller: Caller, item_id: str, content: str, approval_id: UUID | None) -> None:
        """Hold the acceptance of a proposal against what policy demands, and use the approval up.

        Raises:
            GovernanceContextRequired: a policy demands an approval, and none is named; the details say how to get it.
            ApprovalPending: it is not decided yet.
            AuthorApproval: somebody approved it who wrote a part of it.
            DragomanError: it is for something else, used, expired, denied, stale, or by who accepts.
        """
        book = await self._policies.in_force(caller.tenant)
        row = await self._hold(caller, book, ACCEPTANCE, (item_id, content), {}, approval_id)
        if row is None or approval_id is None:
            return
        # Whoever decided elsewhere, where the repository is not, was not known to be an author.
        approved = [one["by"] for one in row["decisions"] if one["decision"] == Verdict.APPROVE]
        if own := await self._authors.among(caller.tenant, content, approved):
            raise AuthorApproval(approval_id, own[0])

    async def check_ending(self, caller: Caller, ending: Ending, approval_id: UUID | None) -> None:
        """Hold the end of an item against what policy demands, and use the approval up.

        Raises:
            DragomanError: as for a proposal.
        """
        book = await self._policies.in_force(caller.tenant)
        given = {"by": ending.by} if ending.by is not None else {}
        await self._hold(caller, book, ending.operation, (ending.item_id, ending.commit), given, approval_id)

    async def find_ended(self, caller: Caller, before: str, after: str) -> list[dict[str, str]]:
        """Return the policies in force at one commit that have ended, changed or been lessened at another."""
        if before == after:
            return []
        was, now = await self._policies.read(caller, before), await self._policies.read(caller, after)
        ended = ended_between(was.policies, now.policies)
        return [{"id": policy.id, "version": policy.version} for policy in ended]

    async def check_merge(self, caller: Caller, merging: Merging, approval_id: UUID | None) -> None:
        """Hold a merge that ends policies against what policy demanded before it, and use the approval up.

        Raises:
            DragomanError: as for a proposal.
        """
        book = await self._policies.read(caller, merging.before)
        given = {"remote": merging.remote, "ends": list(merging.policies)}
        await self._hold(caller, book, MERGE, (MAIN, merging.commit), given, approval_id)

    async def _hold(
        self,
        caller: Caller,
        book: PolicyBook,
        action: str,
        target: tuple[str, str],
        given: dict[str, Any],
        approval_id: UUID | None,
    ) -> Record | None:
        """Return the approval that was used up; None where none is needed."""
        item_id, commit = target
        resource = Resource.model_validate({"type": MATTER, "id": item_id, "version": commit})
        if approval_id is None:
            if not rules_for(book, action):
                return None
            shown = resource.model_dump(exclude_none=True)
            request = {"action": action, "resource": shown, "matter_id": MATTER, "input": given}
            needed = requirement(book, action, sensitive=True)
            then = "have it decided, then repeat this with its approval_id"
            raise GovernanceContextRequired(action, [needed.as_missing("approval_id", request, then=then)])
        use = Use(action, resource, MATTER, given, frozenset({caller.subject}), user=f"{MATTER}:{item_id}@{commit}")
        [row] = await self._consent.hold(caller, book, [str(approval_id)], use, consume=True)
        if row["state"] == ApprovalState.PENDING:
            raise ApprovalPending(approval_id)
        return row
