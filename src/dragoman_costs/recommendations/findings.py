"""What a rule finds, and the protocol of rules."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Protocol
from uuid import UUID

from pydantic import Field

from dragoman.infra.digests import digest_of
from dragoman.operations import Input
from dragoman_costs.recommendations.evidence import Line, PoolUse, ResourceUse

Json = dict[str, Any]
_MANY_DAYS: Final = 28
_SOME_DAYS: Final = 14


class Kind(StrEnum):
    """What is done to save."""

    RIGHTSIZE = "rightsize"
    TERMINATE = "terminate"
    RESERVE = "reserve"
    SCHEDULE = "schedule"
    MIGRATE = "migrate"


class Confidence(StrEnum):
    """How sure the rule is, by the days that it saw and what the bills say of the use."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Risk(StrEnum):
    """How bad it would be to be wrong; it decides who approves."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A saving. `key` names what it is about, the same at every look."""

    rule: str
    kind: Kind
    key: str
    account_id: UUID
    provider: str
    service: str
    region: str
    sub_account: str = ""
    resource_id: str = ""
    resource_name: str = ""
    title: str
    description: str
    currency: str
    saving: Decimal
    confidence: Confidence
    risk: Risk
    current: Json
    recommended: Json
    facts: Json = field(default_factory=dict[str, Any])
    lines: Sequence[Line] = ()

    @property
    def content_sha256(self) -> str:
        """The hash of what would be done, to what, and at which risk: what an approval is bound to.

        The saving is not part of it: it moves with every bill.
        """
        content = {
            "rule": self.rule, "type": self.kind, "account_id": str(self.account_id), "provider": self.provider,
            "service": self.service, "region": self.region, "resource_id": self.resource_id, "risk": self.risk,
            "current": self.current, "recommended": self.recommended,
        }  # fmt: skip
        return digest_of("recommendation", content).hex()


class Options(Input):
    """The thresholds of a rule; a tenant may set each of them."""

    min_saving: float = Field(5.0, ge=0, le=1e9, strict=True, description="The least monthly saving worth telling of.")
    min_days: int = Field(7, ge=1, le=60, strict=True, description="Days of evidence without which nothing is said.")


class Exclusions(Input):
    """What a rule leaves alone."""

    accounts: list[UUID] = Field([], max_length=500, description="Ids of cloud accounts.")
    sub_accounts: list[str] = Field([], max_length=500, description="Ids of member accounts, projects or namespaces.")
    regions: list[str] = Field([], max_length=500)
    services: list[str] = Field([], max_length=500, description="Services, as bills name them.")
    resources: list[str] = Field([], max_length=5_000, description="Ids of resources; `*` stands for anything.")
    tags: list[str] = Field(["dragoman:keep"], max_length=500, description="Tags: `key`, or `key=value`.")

    def cover(self, use: ResourceUse | PoolUse) -> bool:
        """Check whether the rule leaves this alone."""
        if use.account_id in self.accounts or use.region in self.regions or use.service in self.services:
            return True
        if isinstance(use, PoolUse):
            return False
        if use.sub_account in self.sub_accounts:
            return True
        if any(fnmatch.fnmatchcase(use.resource_id, pattern) for pattern in self.resources):
            return True
        tagged = {*use.tags, *(f"{key}={value}" for key, value in use.tags.items())}
        return not tagged.isdisjoint(self.tags)


class Rule(Protocol):
    """Looks for one kind of waste. A rule does no I/O: the same evidence gives the same findings."""

    @property
    def name(self) -> str:
        """The name in findings and settings."""
        ...

    @property
    def summary(self) -> str:
        """What it looks for, in a sentence."""
        ...

    @property
    def options(self) -> type[Options]:
        """The thresholds, with their defaults."""
        ...

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return what could be saved on a resource."""
        ...


def found(  # noqa: PLR0913 - what a finding says, each by its name
    use: ResourceUse, *, rule: str, kind: Kind, saving: Decimal, title: str, description: str, confidence: Confidence,
    risk: Risk, current: Json, recommended: Json, facts: Mapping[str, Any],
) -> Finding:  # fmt: skip
    """Return a finding about a resource."""
    return Finding(
        rule=rule, kind=kind, key=f"{use.account_id}/{use.resource_id}", account_id=use.account_id,
        provider=use.provider, service=use.service, region=use.region, sub_account=use.sub_account,
        resource_id=use.resource_id, resource_name=use.name, title=title, description=description,
        currency=use.currency, saving=saving, confidence=confidence, risk=risk, current=current,
        recommended=recommended, facts={"days": len(use.lines), "monthly_cost": str(use.monthly), **facts},
        lines=use.lines,
    )  # fmt: skip


def confidence_by_days(use: ResourceUse, *, certain: bool = True) -> Confidence:
    """Return how sure one may be after so many days; what the bills do not tell makes it less."""
    if len(use.lines) >= _MANY_DAYS and certain:
        return Confidence.HIGH
    return Confidence.MEDIUM if len(use.lines) >= _SOME_DAYS else Confidence.LOW
