"""Steady use at on-demand prices, which a commitment would make cheaper."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from pydantic import Field

from dragoman_costs.recommendations.evidence import MONTH_DAYS, PoolUse, share_of
from dragoman_costs.recommendations.findings import Confidence, Finding, Kind, Options, Risk

_MANY_DAYS: Final = 28
_CENT: Final = Decimal("0.01")


class CommitmentOptions(Options):
    """What a commitment costs less, and how much of the steady part it should cover."""

    min_days: int = Field(21, ge=7, le=60, strict=True, description="Days of evidence without which nothing is said.")
    min_saving: float = Field(
        100.0, ge=0, le=1e9, strict=True, description="The least monthly saving worth telling of."
    )
    discount: float = Field(
        0.28, gt=0, lt=1, strict=True, description="What a commitment of a year saves of the price."
    )
    cover: float = Field(0.9, gt=0, le=1, strict=True, description="The share of the steady part to commit to.")
    steady_share: float = Field(
        0.6, gt=0, le=1, strict=True, description="The steady part of the mean, from which use counts as steady."
    )


class Commitment:
    """Recommends a commitment for what is used every day. What other findings would save is not committed to."""

    name = "commitment"
    summary = "Machines that run every day at on-demand prices are covered by a commitment of a year."
    options = CommitmentOptions

    def examine_pool(self, use: PoolUse, options: Any, claimed: Mapping[str, Decimal]) -> Finding | None:
        """Return a commitment for the steady part: the tenth percentile of the days, less what is `claimed` a month."""
        if len(use.lines) < options.min_days:
            return None
        days = sorted(line.on_demand for line in use.lines)
        low = days[len(days) // 10]
        mean = sum(days, Decimal(0)) / len(days)
        key = f"{use.account_id}/{use.service}/{use.region}"
        steady = low - claimed.get(key, Decimal(0)) / MONTH_DAYS
        if mean <= 0 or low < mean * Decimal(str(options.steady_share)) or steady <= 0:
            return None
        covered = share_of(steady, options.cover)
        saving = share_of(covered * MONTH_DAYS, options.discount)
        if saving < Decimal(str(options.min_saving)):
            return None
        return Finding(
            rule=self.name, kind=Kind.RESERVE, key=key, account_id=use.account_id, provider=use.provider,
            service=use.service, region=use.region, currency=use.currency, saving=saving,
            title=f"Commit to {covered} {use.currency} a day of {use.service} in {use.region}",
            description=f"Nine of ten days used at least {low.quantize(_CENT)} {use.currency} at on-demand prices.",
            confidence=Confidence.HIGH if len(days) >= _MANY_DAYS else Confidence.MEDIUM, risk=Risk.HIGH,
            current={"commitment_daily": "0", "term": "on demand"},
            recommended={"commitment_daily": str(_rounded(covered)), "currency": use.currency, "term": "1 year"},
            facts={
                "days": len(days), "steady_daily": str(low.quantize(_CENT)), "mean_daily": str(mean.quantize(_CENT)),
                "claimed_monthly": str(claimed.get(key, Decimal(0))), "discount": options.discount,
                "covered_daily": str(covered),
            },
            lines=use.lines,
        )  # fmt: skip


def _rounded(amount: Decimal) -> Decimal:
    """Return the first two digits: what is recommended does not move with every bill."""
    if amount <= 0:
        return Decimal(0)
    step = Decimal(10) ** (amount.adjusted() - 1)
    return (amount // step * step).normalize() if step < 1 else Decimal(int(amount // step * step))
