"""Machines that do nothing."""

from typing import Any

from pydantic import Field

from dragoman_costs.recommendations.evidence import ResourceUse
from dragoman_costs.recommendations.findings import Finding, Kind, Options, Risk, confidence_by_days, found


class IdleOptions(Options):
    """When a machine does nothing."""

    min_days: int = Field(14, ge=1, le=60, strict=True, description="Days of evidence without which nothing is said.")
    cpu_below: float = Field(5.0, gt=0, le=100, strict=True, description="Highest 95th percentile of CPU use, percent.")
    network_below: float = Field(0.5, ge=0, strict=True, description="Most GB that it sent and received on a day.")


class TerminateIdle:
    """Recommends to end machines without CPU use and without traffic."""

    name = "terminate_idle"
    summary = "Machines without CPU use and without traffic on any day are ended."
    options = IdleOptions

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return that it can go. Its busiest day counts: what works once a week is not idle."""
        cpu, network = use.highest("cpu"), use.highest("network")
        if cpu is None or cpu >= options.cpu_below or (network is not None and network >= options.network_below):
            return None
        if not use.machine_type:
            return None
        return found(
            use, rule=self.name, kind=Kind.TERMINATE, saving=use.monthly_on_demand,
            title=f"End {use.name or use.resource_id}: it does nothing",
            description=f"On its busiest day of {len(use.lines)}, CPU use was {cpu:.1f}%.",
            confidence=confidence_by_days(use, certain=network is not None),
            risk=Risk.HIGH if use.in_production else Risk.MEDIUM,
            current={"state": "running", "machine_type": use.machine_type}, recommended={"state": "terminated"},
            facts={"cpu_p95_max": cpu, "network_gb_max": network},
        )  # fmt: skip
