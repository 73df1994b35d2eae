"""What rules look at: a resource's days in the bills, with what exports say of its use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

import orjson

MONTH_DAYS: Final = 30
_CENT: Final = Decimal("0.01")
_PRODUCTION: Final = frozenset({"production", "prod", "prd", "live"})
_ENVIRONMENTS: Final = ("environment", "env", "stage", "Environment", "Env")


@dataclass(frozen=True, slots=True)
class Line:
    """What a resource cost on a day: the first of its rows, and the sums of all of them.

    `on_demand` is the part of `amount` at on-demand prices: neither covered by a commitment nor spot.
    """

    slice_id: UUID
    line: int
    day: date
    amount: Decimal
    on_demand: Decimal
    quantity: Decimal
    levels: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """A resource in the window of an analysis: its newest description, and its days in their order."""

    account_id: UUID
    provider: str
    service: str
    category: str
    region: str
    sub_account: str
    resource_id: str
    name: str
    type: str
    unit: str
    currency: str
    description: str
    first_seen: date
    tags: Mapping[str, Any]
    details: Mapping[str, Any]
    lines: Sequence[Line]

    @property
    def monthly(self) -> Decimal:
        """What a month of it costs, by the mean of its days."""
        return _monthly([line.amount for line in self.lines])

    @property
    def monthly_on_demand(self) -> Decimal:
        """What a month of it costs at on-demand prices, which is what a change to it can save."""
        return _monthly([line.on_demand for line in self.lines])

    @property
    def environment(self) -> str:
        """The stage that its tags name, in small letters; empty where they name none."""
        return next((str(self.tags[key]).lower() for key in _ENVIRONMENTS if key in self.tags), "")

    @property
    def in_production(self) -> bool:
        """Whether it counts as production: unless its tags say otherwise, it does."""
        return self.environment in _PRODUCTION or not self.environment

    @property
    def machine_type(self) -> str:
        """The type of machine, where the bill says it."""
        text = str(self.details.get("SkuPriceDetails") or "")
        try:
            told: Any = orjson.loads(text) if text else None
        except orjson.JSONDecodeError:
            told = None
        found = cast("dict[str, Any]", told).get("InstanceType") if isinstance(told, dict) else None
        return str(found or self.details.get("x_InstanceType") or "")

    def highest(self, name: str) -> float | None:
        """Return the highest level of a measure in the window; None where fewer than half of the days tell it."""
        told = [line.levels[name] for line in self.lines if name in line.levels]
        return max(told) if len(told) * 2 >= len(self.lines) and told else None

    def detail(self, name: str) -> str:
        """Return what the newest row says in a column; empty where it says nothing."""
        return str(self.details.get(name) or "")


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What a service of an account costs on demand in a region, by day: what a commitment could cover."""

    account_id: UUID
    provider: str
    service: str
    region: str
    currency: str
    lines: Sequence[Line]


def _monthly(amounts: Sequence[Decimal]) -> Decimal:
    return (sum(amounts, Decimal(0)) / max(len(amounts), 1) * MONTH_DAYS).quantize(_CENT)


def share_of(amount: Decimal, share: float) -> Decimal:
    """Return a share of an amount, in cents."""
    return (amount * Decimal(str(share))).quantize(_CENT)
