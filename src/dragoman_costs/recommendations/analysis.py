"""From evidence to findings: each rule with the options of the tenant, and no saving counted twice."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from dragoman_costs.recommendations.evidence import PoolUse, ResourceUse
from dragoman_costs.recommendations.findings import Exclusions, Finding, Options
from dragoman_costs.recommendations.rules import COMMITMENT, OPTIONS, RULES

_HOURLY: Final = frozenset({"hours", "hour", "hrs"})


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """What a tenant wants of a rule."""

    enabled: bool
    options: Options
    exclusions: Exclusions


def default_settings() -> dict[str, RuleSettings]:
    """Return every rule with its defaults."""
    return {
        name: RuleSettings(enabled=True, options=options.model_validate({}), exclusions=Exclusions.model_validate({}))
        for name, options in OPTIONS.items()
    }


def analyse(
    resources: Sequence[ResourceUse], pools: Sequence[PoolUse], settings: Mapping[str, RuleSettings]
) -> list[Finding]:
    """Return what could be saved.

    A resource has one finding, the one that saves most: what is ended need not be made smaller. A commitment does not
    cover what the other findings would save.
    """
    findings: list[Finding] = []
    claimed: dict[str, Decimal] = defaultdict(Decimal)
    for use in resources:
        best = max(_examine(use, settings), key=lambda one: one.saving, default=None)
        if best is not None:
            findings.append(best)
            if use.unit.lower() in _HOURLY:
                claimed[f"{use.account_id}/{use.service}/{use.region}"] += best.saving
    wanted = settings[COMMITMENT.name]
    if wanted.enabled:
        for pool in pools:
            if not wanted.exclusions.cover(pool):
                found = COMMITMENT.examine_pool(pool, wanted.options, claimed)
                findings += [found] if found is not None else []
    return findings


def _examine(use: ResourceUse, settings: Mapping[str, RuleSettings]) -> list[Finding]:
    found: list[Finding] = []
    for rule in RULES:
        wanted = settings[rule.name]
        if not wanted.enabled or len(use.lines) < wanted.options.min_days or wanted.exclusions.cover(use):
            continue
        finding = rule.examine(use, wanted.options)
        if finding is not None and finding.saving >= Decimal(str(wanted.options.min_saving)):
            found.append(finding)
    return found
