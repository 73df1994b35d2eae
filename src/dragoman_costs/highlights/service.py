"""Puts together what a dashboard says of anomalies and savings."""

from typing import Final

from dragoman.context import Caller
from dragoman_costs.anomalies.service import AnomalyService
from dragoman_costs.highlights import models as m
from dragoman_costs.recommendations.models import ListRecommendations, RecommendationStatus, ShowSavings
from dragoman_costs.recommendations.savings import SavingsService
from dragoman_costs.recommendations.service import RecommendationService

# So many executed recommendations are measured for one look.
_MEASURED: Final = 100


class Highlights:
    """Shows what needs attention."""

    def __init__(
        self, anomalies: AnomalyService, recommendations: RecommendationService, savings: SavingsService
    ) -> None:
        self._anomalies = anomalies
        self._recommendations = recommendations
        self._savings = savings

    async def anomalies(self, caller: Caller, request: m.LookAtAnomalies) -> m.AnomalyHighlights:
        """Return the anomalies that need attention, the newest first, and what all of them cost too much."""
        found = await self._anomalies.list_open(
            caller, request.limit, provider=request.provider, account_id=request.account_id,
            since=request.start_date, until=request.end_date,
        )  # fmt: skip
        return m.AnomalyHighlights(totals=list(await self._anomalies.sum_open(caller)), items=list(found))

    async def recommendations(self, caller: Caller, request: m.LookAtSavings) -> m.SavingHighlights:
        """Return the largest savings that wait for a decision, and the sums of all."""
        query = ListRecommendations.model_validate(
            {"limit": request.limit, "status": RecommendationStatus.PENDING, "account_id": request.account_id}
        )
        found = await self._recommendations.list(caller, query)
        report = await self._savings.report(caller, ShowSavings(limit=_MEASURED))
        return m.SavingHighlights(totals=report.totals, items=found.items)
