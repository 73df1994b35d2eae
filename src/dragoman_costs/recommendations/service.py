"""Rules of recommendations: what is shown, and who decides what."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound, Stale
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman_costs.recommendations import models as m
from dragoman_costs.recommendations.errors import ForPeople, UnderWay, WrongStatus
from dragoman_costs.recommendations.findings import Risk
from dragoman_costs.recommendations.store import RecommendationStore, Record

_DECIDED = {
    m.Decision.APPROVE: m.RecommendationStatus.APPROVED,
    m.Decision.DISMISS: m.RecommendationStatus.DISMISSED,
}
_FROM = {
    m.Decision.APPROVE: (m.RecommendationStatus.PENDING,),
    m.Decision.DISMISS: (m.RecommendationStatus.PENDING, m.RecommendationStatus.APPROVED),
}


class RecommendationService:
    """Shows recommendations, and keeps what is decided about them."""

    def __init__(self, store: RecommendationStore, *, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._new_id = new_id

    async def list(self, caller: Caller, query: m.ListRecommendations) -> Page[m.Recommendation]:
        """Return recommendations, the largest saving first, or the newest."""
        filters = (
            query.status, query.type, query.rule, query.account_id, query.confidence, query.currency,
            query.least_saving,
        )  # fmt: skip
        rows = await self._store.list_page(
            scope_of(caller), query.limit + 1, query.cursor, filters, newest=query.order is m.Order.NEWEST
        )
        return page([m.Recommendation.model_validate(row) for row in rows], query.limit)

    async def get(self, caller: Caller, ref: m.RecommendationRef) -> m.RecommendationView:
        """Return one recommendation with its evidence.

        Raises:
            NotFound: the tenant has none with this id.
        """
        return view(await self.find(caller, ref.recommendation_id))

    async def decide(self, caller: Caller, request: m.DecideRecommendation) -> m.RecommendationView:
        """Approve or dismiss a recommendation, as the caller has seen it.

        Raises:
            NotFound: the tenant has none with this id.
            Stale: it is no longer at the expected version.
            WrongStatus: it is decided already, executed or expired.
            UnderWay: it is dismissed while a task carries it out.
            ForPeople: a program approves more than low risk.
            InvalidInput: it is dismissed without a reason.
        """
        if request.decision is m.Decision.DISMISS and request.reason is None:
            raise InvalidInput.of("reason", "say why it is dismissed")
        row = await self.find(caller, request.recommendation_id, lock=True)
        check_version(row, request.expected_version)
        if row["status"] not in _FROM[request.decision]:
            raise WrongStatus(row["status"], " or ".join(_FROM[request.decision]))
        if row["executing_at"] is not None:
            raise UnderWay(row["task_id"])
        if request.decision is m.Decision.APPROVE and row["risk"] != Risk.LOW and not caller.is_person:
            raise ForPeople(row["risk"])
        decided = await self._store.decide(
            scope_of(caller), row, self._new_id(), status=_DECIDED[request.decision], decision=request.decision,
            reason=request.reason, by=caller.subject,
        )  # fmt: skip
        return view(decided)

    async def find(self, caller: Caller, recommendation_id: UUID, *, lock: bool = False) -> Record:
        """Return the row of a recommendation.

        Raises:
            NotFound: the tenant has none with this id.
        """
        row = await self._store.find(scope_of(caller), recommendation_id, lock=lock)
        if row is None:
            raise NotFound("recommendation", recommendation_id)
        return row


def check_version(row: Record, expected: int | None) -> None:
    """Refuse when the recommendation has changed since it was read.

    Raises:
        Stale: it has.
    """
    if expected is not None and expected != row["version"]:
        raise Stale("recommendation", expected=expected, current=row["version"])


def view(row: Record) -> m.RecommendationView:
    """Return a row as it is shown."""
    evidence: dict[str, Any] = {**row["evidence"], "facts": row["facts"]}
    approved = row["status"] in (m.RecommendationStatus.APPROVED, m.RecommendationStatus.EXECUTED)
    return m.RecommendationView.model_validate(
        {
            **row, "evidence": evidence, "approved_by": row["decided_by"] if approved else None,
            "executing": row["executing_at"] is not None,
        }
    )  # fmt: skip
