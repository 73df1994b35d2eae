"""What a made-up company runs: accounts, resources with their prices and seasons, and what is known to be wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

# From a price for one day to one for a month.
MONTH_DAYS: Final = 30


@dataclass(frozen=True, slots=True)
class SubAccount:
    """A member account, a resource group, a project or a namespace."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class DemoAccount:
    """A cloud account of the made-up company. `provider` is ours, `issuer` as bills call it."""

    provider: str
    identifier: str
    name: str
    issuer: str
    publisher: str
    currency: str
    sub_accounts: tuple[SubAccount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something that costs money each day.

    `quantity` is that of a usual working day on day 0. `weekend` is the share of it on Saturdays and Sundays, `growth`
    its daily rate, `noise` its standard deviation. It exists from day `first` to day `last`. `hints` are further
    columns of its rows: facts about its use that exports may carry.
    """

    account: DemoAccount
    id: str
    name: str
    type: str
    service: str
    category: str
    region: str
    sub_account: SubAccount
    description: str
    unit: str
    quantity: float
    price: float
    weekend: float = 1.0
    growth: float = 0.0
    noise: float = 0.0
    first: int = 0
    last: int = 10_000
    discount: float = 0.0
    commitment: str = ""
    dynamic: bool = False
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    hints: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def daily(self) -> float:
        """The cost of a usual working day on day 0."""
        return self.quantity * self.price * (1 - self.discount)


@dataclass(frozen=True, slots=True)
class Surge:
    """Multiplies what a resource uses, from one day to another."""

    resource_id: str
    first: int
    last: int
    factor: float


@dataclass(frozen=True, slots=True)
class Surprise:
    """An anomaly that was put in: the truth that detection is measured by.

    `kind` is spike, drop, step, leak, new_service or intrusion; `share` is what it adds relative to the series before.
    """

    kind: str
    identifier: str
    service: str
    first: date
    last: date
    share: float
    region: str
    resource_id: str


@dataclass(frozen=True, slots=True)
class Waste:
    """A saving that was put in: the truth that a rule is measured by; `pool` is a service where it is no resource."""

    rule: str
    resource_id: str
    pool: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Estate:
    """All of it. `decoys` look like waste and are none."""

    seed: int
    first_day: date
    days: int
    accounts: tuple[DemoAccount, ...]
    resources: tuple[Resource, ...]
    surges: tuple[Surge, ...]
    surprises: tuple[Surprise, ...]
    waste: tuple[Waste, ...]
    decoys: tuple[str, ...]
