"""The sections of a dashboard about anomalies and savings, for those who may see them."""

from datetime import date
from typing import Final

from dragoman.context import Caller
from dragoman.plugin import Permits
from dragoman_costs.dashboard.models import LookAtCosts
from dragoman_costs.highlights import models as m
from dragoman_costs.highlights import operations
from dragoman_costs.highlights.service import Highlights

_SHOWN: Final = 5


class Sections:
    """Adds what needs attention to a dashboard."""

    def __init__(self, highlights: Highlights, permits: Permits) -> None:
        self._highlights = highlights
        self._permits = permits

    async def anomalies(
        self, caller: Caller, request: LookAtCosts, *, until: date | None
    ) -> m.AnomalyHighlights | None:
        """Return the anomalies of the days that are looked at and of those before; None for who may not see them."""
        if not self._permits(caller, operations.ANOMALIES):
            return None
        look = m.LookAtAnomalies(
            start_date=None, end_date=until, provider=request.provider, account_id=request.account_id, limit=_SHOWN
        )
        return await self._highlights.anomalies(caller, look)

    async def savings(self, caller: Caller, request: LookAtCosts) -> m.SavingHighlights | None:
        """Return the largest savings; None for who may not see them."""
        if not self._permits(caller, operations.RECOMMENDATIONS):
            return None
        return await self._highlights.recommendations(
            caller, m.LookAtSavings(account_id=request.account_id, limit=_SHOWN)
        )
