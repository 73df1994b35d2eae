"""What providers announce of their budgets: it becomes an alert of the budget of that name."""

from decimal import Decimal
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from dragoman.context import Caller
from dragoman.errors import InvalidInput
from dragoman.plugin import GateRun
from dragoman.services.inbox.ports import WebhookEvent
from dragoman_costs.budgets import models as m
from dragoman_costs.budgets.service import BudgetService

_PAGE: Final = 200
_HIGHEST: Final = 1_000


class Announced(BaseModel):
    """An alert of a provider, as the inbox reads it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    budget: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    amount: Decimal
    limit: Annotated[Decimal, Field(gt=0, lt=Decimal(10) ** 18)]
    currency: m.Currency
    threshold_percent: Decimal | None = None
    forecast: bool = False

    @property
    def threshold(self) -> int:
        """The threshold in whole percent; what was reached, where none was announced."""
        percent = self.amount * 100 / self.limit if self.threshold_percent is None else self.threshold_percent
        return max(1, min(_HIGHEST, int(percent)))


class BudgetAnnouncements:
    """Handles `budget.alert`."""

    def __init__(self, budgets: BudgetService, run: GateRun) -> None:
        self._budgets = budgets
        self._run = run

    async def alert(self, caller: Caller, event: WebhookEvent) -> None:
        """Raise an alert of the budget of the announced name; make that budget where there is none.

        Raises:
            InvalidInput: the announcement lacks an amount, a limit or a currency.
        """
        try:
            announced = Announced.model_validate(event.data)
        except ValidationError as error:
            missing = sorted({str(one["loc"][0]) for one in error.errors() if one["loc"]})
            raise InvalidInput.of("data", f"is not an alert of a budget: {', '.join(missing)}") from None
        budget_id = await self._find(caller, announced) or await self._make(caller, announced, event)
        kind = m.AlertKind.FORECAST if announced.forecast else m.AlertKind.ACTUAL
        await self._budgets.raise_announced(caller, budget_id, kind, announced.threshold, announced.amount)

    async def _find(self, caller: Caller, announced: Announced) -> UUID | None:
        cursor: str | None = None
        while True:
            asked: dict[str, Any] = {"limit": _PAGE} | ({"cursor": cursor} if cursor else {})
            page = await self._run("budget.list", caller, asked)
            for budget in page.items:
                if budget.name == announced.budget and budget.currency == announced.currency:
                    return budget.id
            if (cursor := page.next_cursor) is None:
                return None

    async def _make(self, caller: Caller, announced: Announced, event: WebhookEvent) -> UUID:
        """Make the budget without thresholds: its provider says when one is reached."""
        given: dict[str, Any] = {
            "name": announced.budget,
            "amount": str(announced.limit),
            "currency": announced.currency,
            "thresholds": [],
            "forecast_thresholds": [],
        }
        if (account_id := await self._account(caller, event.account)) is not None:
            given["scope"] = {"account_id": account_id}
        made = await self._run("budget.create", caller, given, idempotency_key=event.key)
        return made.id

    async def _account(self, caller: Caller, named: str | None) -> str | None:
        """Return the cloud account that the source is registered for, by its id or its identifier."""
        cursor: str | None = None
        while named is not None:
            asked: dict[str, Any] = {"limit": _PAGE} | ({"cursor": cursor} if cursor else {})
            page = await self._run("cloud_account.list", caller, asked)
            for account in page.items:
                if named in (str(account.id), account.identifier):
                    return str(account.id)
            if (cursor := page.next_cursor) is None:
                break
        return None
