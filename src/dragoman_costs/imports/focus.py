"""What FOCUS 1.0 to 1.3 says of a billing export, as far as an import depends on it."""

from collections.abc import Sequence
from typing import Final

# Costs of a row, by their columns here.
AMOUNTS: Final = {
    "billed": "BilledCost",
    "effective": "EffectiveCost",
    "list": "ListCost",
    "contracted": "ContractedCost",
}
# Mandatory in all of these versions, never null, and needed here.
REQUIRED: Final = (
    *AMOUNTS.values(),
    "BillingAccountId", "BillingCurrency", "BillingPeriodStart", "BillingPeriodEnd", "ChargeCategory",
    "ChargePeriodStart", "ChargePeriodEnd", "ServiceCategory", "ServiceName",
)  # fmt: skip
# Providers leave these empty all the same. Such a row is kept, and adds nothing to the sum of the column.
MAY_BE_EMPTY: Final = frozenset({"ListCost", "ContractedCost"})
TIMES: Final = ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd")
# One of these: version 1.3 gave the provider another name.
PROVIDERS: Final = ("ProviderName", "ServiceProviderName")
# What has a column of its own in `cost_rows`; all else is kept in `extra`.
KEPT: Final = frozenset(
    (*AMOUNTS.values(), "BillingCurrency", "ProviderName", "ServiceName", "ServiceCategory", "RegionId", "SubAccountId",
     "SubAccountName", "ResourceId", "ResourceName", "ResourceType", "ChargeCategory", "ChargeDescription",
     "PricingCategory", "ConsumedQuantity", "ConsumedUnit", "CommitmentDiscountId", "CommitmentDiscountStatus", "Tags",
     "ChargePeriodStart", "ChargePeriodEnd")
)  # fmt: skip
_KNOWN: Final = {
    name.lower(): name
    for name in (*REQUIRED, *PROVIDERS, *KEPT, "PricingQuantity", "PricingUnit")
}  # fmt: skip
MOST_COLUMNS: Final = 500
_LONGEST_NAME: Final = 200


class NotFocus(Exception):
    """The columns are not those of a billing export; `reason` is part of the error that callers get."""

    def __init__(self, reason: str, message: str, columns: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.columns = list(columns)


def read_columns(names: Sequence[str]) -> list[str]:
    """Return the columns of a file, those of FOCUS as they are written there.

    Raises:
        NotFocus: a mandatory column is missing, or the names cannot be told apart.
    """
    columns = [_KNOWN.get(name.strip().lower(), name.strip()) for name in names]
    if len(columns) > MOST_COLUMNS or any(len(name) > _LONGEST_NAME for name in columns):
        raise NotFocus("TOO_MANY_COLUMNS", f"at most {MOST_COLUMNS} columns with names of {_LONGEST_NAME} characters")
    if unnamed := [str(place) for place, name in enumerate(columns, 1) if not name]:
        raise NotFocus("UNNAMED_COLUMN", f"columns have no name: {', '.join(unnamed[:10])}")
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise NotFocus("COLUMN_TWICE", f"columns are there twice: {', '.join(twice)}", twice)
    missing = [name for name in REQUIRED if name not in columns]
    if not any(name in columns for name in PROVIDERS):
        missing.append("ProviderName")
    if missing:
        raise NotFocus("MISSING_COLUMNS", f"mandatory columns are missing: {', '.join(missing)}", missing)
    return columns


def find_delimiter(header: str) -> str | None:
    """Return the name of the delimiter of a header line that has another one than commas."""
    names = {";": "semicolon", "\t": "tab", "|": "pipe"}
    counts = {sign: header.count(sign) for sign in names}
    sign = max(counts, key=lambda one: counts[one])
    return names[sign] if counts[sign] > header.count(",") else None
