"""The rows of an estate, day by day, as FOCUS exports have them."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from math import exp
from random import Random
from typing import Final

from dragoman_costs.synthetic.estate import MONTH_DAYS, DemoAccount, Estate, Resource

Charge = dict[str, str]
_SATURDAY: Final = 5
_VARYING: Final = ("x_CpuP95", "x_MemoryP95")
_ODD_DAYS: Final = 0.03
_TAX: Final = 0.21


def list_charges(estate: Estate, account: DemoAccount, *, after: date | None = None) -> Iterator[Charge]:
    """Yield the rows of an account in the order of its days: the columns of FOCUS 1.2, and x_ columns of usage."""
    own = [one for one in estate.resources if one.account.identifier == account.identifier]
    surges: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
    for surge in estate.surges:
        surges[surge.resource_id].append((surge.first, surge.last, surge.factor))
    services = sorted({one.service for one in own})
    # Each row is drawn from its own day and place, so that a longer estate begins with the same rows.
    for index in range(estate.days):
        day = estate.first_day + timedelta(days=index)
        rng = Random(f"{estate.seed}:{account.identifier}:{day.isoformat()}")  # noqa: S311 - made-up data
        skip = after is not None and day <= after
        moods = {service: _mood(rng) for service in services}
        for one in own:
            draw, shake = rng.gauss(0, 1), rng.gauss(0, 1)
            if skip or not one.first <= index <= one.last:
                continue
            factor = 1.0
            for first, last, multiplied in surges.get(one.id, ()):
                if first <= index <= last:
                    factor *= multiplied
            quantity = one.quantity * factor * exp(one.growth * index) * (1 + one.noise * (draw + moods[one.service]))
            if day.weekday() >= _SATURDAY:
                quantity *= one.weekend
            if quantity > 0:
                yield _usage(one, day, quantity, shake)
        if not skip and day.day == 1:
            yield from _monthly(own, account, day)


def _mood(rng: Random) -> float:
    """Return how much more or less a whole service is used on a day: mostly a little, now and then a lot."""
    return rng.gauss(0, 1) * (2.5 if rng.random() < _ODD_DAYS else 1.0)


def _usage(one: Resource, day: date, quantity: float, shake: float) -> Charge:
    listed = quantity * one.price
    effective = listed * (1 - one.discount)
    amount = _number(effective)
    hints = dict(one.hints)
    for name in _VARYING:
        if name in hints:
            hints[name] = _level(hints[name], day, shake)
    for name in ("x_NetworkGB",):
        if "|" in hints.get(name, ""):
            hints[name] = _level(hints[name], day, 0.0)
    category = "Committed" if one.commitment else "Dynamic" if one.dynamic else "Standard"
    charge = _frame(one.account, day, "Usage")
    charge |= {
        "BilledCost": "0" if one.commitment else amount, "EffectiveCost": amount, "ListCost": _number(listed),
        "ContractedCost": amount, "ListUnitPrice": _number(one.price), "ChargeDescription": one.description,
        "ServiceName": one.service, "ServiceCategory": one.category, "RegionId": one.region, "RegionName": one.region,
        "SubAccountId": one.sub_account.id, "SubAccountName": one.sub_account.name, "ResourceId": one.id,
        "ResourceName": one.name, "ResourceType": one.type, "PricingCategory": category,
        "PricingQuantity": _number(quantity), "PricingUnit": one.unit, "ConsumedQuantity": _number(quantity),
        "ConsumedUnit": one.unit, "Tags": _tags(one), **hints,
    }  # fmt: skip
    if one.commitment:
        charge |= {
            "CommitmentDiscountId": one.commitment, "CommitmentDiscountStatus": "Used",
            "CommitmentDiscountType": "Compute commitment",
        }  # fmt: skip
    return charge


def _monthly(own: list[Resource], account: DemoAccount, day: date) -> Iterator[Charge]:
    """Yield what is billed once a month: the fee of commitments, and tax."""
    covered = sum(one.daily for one in own if one.commitment) * MONTH_DAYS
    if covered:
        amount = _number(covered)
        yield _frame(account, day, "Purchase") | {
            "BilledCost": amount, "EffectiveCost": "0", "ListCost": amount, "ContractedCost": amount,
            "ChargeDescription": "Recurring fee of a commitment", "ServiceName": "Commitments",
            "ServiceCategory": "Compute", "PricingCategory": "Committed",
            "CommitmentDiscountId": f"cud-{account.provider}-1",
        }  # fmt: skip
    tax = _number(sum(one.daily for one in own if one.first == 0) * MONTH_DAYS * _TAX)
    yield _frame(account, day, "Tax") | {
        "BilledCost": tax, "EffectiveCost": tax, "ListCost": tax, "ContractedCost": tax,
        "ChargeDescription": "Value added tax", "ServiceName": "Tax", "ServiceCategory": "Other",
    }  # fmt: skip


def _frame(account: DemoAccount, day: date, category: str) -> Charge:
    month = day.replace(day=1)
    following = (month + timedelta(days=32)).replace(day=1)
    return {
        "BillingAccountId": account.identifier, "BillingAccountName": account.name, "BillingCurrency": account.currency,
        "BillingPeriodStart": f"{month}T00:00:00Z", "BillingPeriodEnd": f"{following}T00:00:00Z",
        "ChargePeriodStart": f"{day}T00:00:00Z", "ChargePeriodEnd": f"{day + timedelta(days=1)}T00:00:00Z",
        "ChargeCategory": category, "ChargeClass": "",
        "ChargeFrequency": "Usage-Based" if category == "Usage" else "Recurring",
        "InvoiceIssuerName": account.publisher, "ProviderName": account.issuer, "PublisherName": account.publisher,
    }  # fmt: skip


def _level(hint: str, day: date, shake: float) -> str:
    """Return a measure as it was on a day: `2.0|88` is 2 on most days and 88 on Mondays."""
    usual, _, monday = hint.partition("|")
    level = float(monday) if monday and day.weekday() == 0 else float(usual)
    return f"{min(max(level * (1 + 0.05 * shake), 0.0), 100.0):.2f}"


def _tags(one: Resource) -> str:
    pairs = ",".join(f'"{key}":"{value}"' for key, value in one.tags.items())
    return f"{{{pairs}}}"


def _number(value: float) -> str:
    """Return a decimal without an exponent."""
    return f"{value:.10f}".rstrip("0").rstrip(".") or "0"
