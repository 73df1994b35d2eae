"""What DuckDB computes from the columns of a row: its values, and what is wrong with them.

The columns of a file are `c0`, `c1` and so on, so that no name of a file is ever part of a statement.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dragoman_costs.imports.focus import AMOUNTS, KEPT, MAY_BE_EMPTY, PROVIDERS, REQUIRED, TIMES
from dragoman_costs.imports.store_scan import quoted

# A sum of DECIMAL(38, 20) is exact for values with so many decimals.
_FINEST: Final = 20
# An index takes no longer ones.
_LONGEST_ID: Final = 1_000
_SHOWN: Final = 200
_EARLIEST, _LATEST = "1970-01-01", "2200-01-01"
TEXTS: Final = {
    "service": "ServiceName",
    "service_category": "ServiceCategory",
    "region": "RegionId",
    "sub_account": "SubAccountId",
    "sub_account_name": "SubAccountName",
    "resource_id": "ResourceId",
    "resource_name": "ResourceName",
    "resource_type": "ResourceType",
    "charge_category": "ChargeCategory",
    "charge_description": "ChargeDescription",
    "pricing_category": "PricingCategory",
    "commitment_id": "CommitmentDiscountId",
    "commitment_status": "CommitmentDiscountStatus",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a row cannot be read; `condition` and `value` are expressions."""

    column: str
    reason: str
    condition: str
    value: str


class Fields:
    """The expressions for a file with these columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self.problems = list(self._list_problems())

    def get(self, name: str) -> str:
        """Return the text of a column; null where the file has none."""
        return f"c{self.columns.index(name)}" if name in self.columns else "NULL::VARCHAR"

    def text(self, name: str) -> str:
        """Return the text of a column, empty where it has none."""
        return f"coalesce({self.get(name)}, '')"

    def amount(self, name: str) -> str:
        """Return the text of a cost."""
        return f"coalesce({self.get(name)}, '0')" if name in MAY_BE_EMPTY else self.get(name)

    @property
    def provider(self) -> str:
        """Return the provider, by its name of either version."""
        return "coalesce(" + ", ".join(map(self.get, PROVIDERS)) + ")"

    @property
    def quantity(self) -> str:
        """Return what was consumed, or where that is not said, what was priced."""
        return f"coalesce({self.get('ConsumedQuantity')}, {self.get('PricingQuantity')})"

    @property
    def unit(self) -> str:
        """Return the unit of the quantity."""
        units = f"THEN {self.get('ConsumedUnit')} ELSE {self.get('PricingUnit')}"
        return f"coalesce(CASE WHEN {self.get('ConsumedQuantity')} IS NOT NULL {units} END, '')"

    @property
    def parsed(self) -> str:
        """Return the fields that are more than text, each null where it cannot be read."""
        amounts = [f"{_decimal(self.amount(name))} AS {own}" for own, name in AMOUNTS.items()]
        times = [f"{_time(self.get(name))} AS {_snake(name)}" for name in TIMES]
        return ", ".join((*amounts, f"{_decimal(self.quantity)} AS quantity", *times))

    @property
    def code(self) -> str:
        """Return the number of the first problem of a row, 0 where there is none."""
        cases = " ".join(f"WHEN {one.condition} THEN {code}" for code, one in enumerate(self.problems, 1))
        return f"CASE {cases} ELSE 0 END"

    @property
    def value(self) -> str:
        """Return what stands where the first problem of a row is."""
        cases = " ".join(f"WHEN {code} THEN {one.value}" for code, one in enumerate(self.problems, 1))
        return f"CASE code {cases} END[:{_SHOWN}]"

    @property
    def inexact(self) -> str:
        """Return whether a number of the row has more decimals than a sum of it would."""
        numbers = (*map(self.amount, AMOUNTS.values()), self.quantity)
        return " OR ".join(
            f"strlen({one}) - strpos({one}, '.') > {_FINEST} OR contains({one}, 'e') OR contains({one}, 'E')"
            for one in numbers
        )

    def remainder(self, constants: Mapping[str, str], absent: Iterable[str]) -> str:
        """Return the columns without a place of their own as JSON; `absent` ones and constants are left out."""
        left_out = {*KEPT, *constants, *absent}
        parts = [
            f"CASE WHEN {self.get(name)} IS NULL THEN '' ELSE {quoted(',' + json.dumps(name) + ':')} || "
            f"to_json({self.get(name)})::VARCHAR END"
            for name in self.columns
            if name not in left_out
        ]
        # Tags that are not a flat object are kept as they were written.
        tags = self.get("Tags")
        parts.append(f"CASE WHEN odd THEN ',\"Tags\":' || to_json({tags})::VARCHAR ELSE '' END")
        return f"'{{' || substr(concat({', '.join(parts)}), 2) || '}}'"

    def _list_problems(self) -> Iterator[Problem]:
        for name in REQUIRED:
            if name not in MAY_BE_EMPTY:
                yield Problem(name, "it is mandatory and has no value", f"{self.get(name)} IS NULL", "NULL")
        yield Problem("ProviderName", "it is mandatory and has no value", f"{self.provider} IS NULL", "NULL")
        for own, name in AMOUNTS.items():
            yield Problem(name, "it is not a decimal number below 10^18", f"{own} IS NULL", self.get(name))
        present = f"{self.quantity} IS NOT NULL"
        column = "ConsumedQuantity" if "ConsumedQuantity" in self.columns else "PricingQuantity"
        yield Problem(
            column, "it is not a decimal number below 10^18", f"quantity IS NULL AND {present}", self.quantity
        )
        for name in TIMES:
            yield Problem(
                name,
                "it is not a date or time such as 2026-01-31T00:00:00Z",
                f"{_snake(name)} IS NULL OR {_snake(name)} < '{_EARLIEST}' OR {_snake(name)} > '{_LATEST}'",
                self.get(name),
            )
        currency = self.get("BillingCurrency")
        yield Problem(
            "BillingCurrency", "it is not a currency of three letters such as USD",
            f"NOT regexp_full_match({currency}, '[A-Z]{{3}}')", currency,
        )  # fmt: skip
        resource = self.text("ResourceId")
        yield Problem(
            "ResourceId",
            f"it is longer than {_LONGEST_ID:,} bytes",
            f"strlen({resource}) > {_LONGEST_ID}",
            resource,
        )


def _decimal(value: str) -> str:
    # The cast takes underscores between digits.
    return f"CASE WHEN NOT contains({value}, '_') THEN TRY_CAST({value} AS DECIMAL(38, {_FINEST})) END"


def _time(value: str) -> str:
    """Return a time of UTC; one without an offset is that already, and takes a tenth of the time to read."""
    usual = f"strlen({value}) = 19 OR (strlen({value}) = 20 AND suffix({value}, 'Z'))"
    return (
        f"CASE WHEN substr({value}, 17, 1) = ':' AND ({usual}) THEN TRY_CAST({value} AS TIMESTAMP) "
        f"ELSE TRY_CAST({value} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' END"
    )


def _snake(name: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name).lstrip("_")
