"""Machines and workloads that are larger than what they do."""

from decimal import ROUND_UP, Decimal, InvalidOperation
from typing import Any, Final

from pydantic import Field

from dragoman_costs.recommendations.evidence import ResourceUse, share_of
from dragoman_costs.recommendations.findings import Finding, Kind, Options, Risk, confidence_by_days, found
from dragoman_costs.recommendations.machines import find_smaller

# A machine of half the size is twice as busy.
_DOUBLE: Final = 2
_TWO_SIZES: Final = 2


class RightsizeOptions(Options):
    """When something is too large."""

    cpu_below: float = Field(
        40.0, gt=0, le=100, strict=True, description="Highest 95th percentile of CPU use, percent."
    )
    memory_below: float = Field(40.0, gt=0, le=100, strict=True, description="Likewise of memory.")
    leave_free: float = Field(
        20.0, ge=0, lt=100, strict=True, description="Percent of CPU and memory that must be free afterwards."
    )


class Rightsize:
    """Recommends a smaller machine, or smaller requests, where CPU and memory are mostly unused."""

    name = "rightsize"
    summary = "Machines, databases and workloads whose CPU and memory are mostly unused get a smaller size."
    options = RightsizeOptions

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return a smaller size. Both CPU and memory must be told by the bill: a full cache has little CPU use."""
        cpu, memory = use.highest("cpu"), use.highest("memory")
        if cpu is None or memory is None or cpu >= options.cpu_below or memory >= options.memory_below:
            return None
        if use.detail("x_CpuRequested"):
            return self._workload(use, options, cpu, memory)
        busiest = max(cpu, memory)
        steps = _TWO_SIZES if busiest * _DOUBLE**_TWO_SIZES <= 100 - options.leave_free else 1
        smaller = find_smaller(use.machine_type, steps) or find_smaller(use.machine_type, 1)
        if smaller is None:
            return None
        return found(
            use, rule=self.name, kind=Kind.RIGHTSIZE, saving=share_of(use.monthly_on_demand, smaller.saves),
            title=f"Use {smaller.type} for {use.name or use.resource_id}",
            description=f"CPU was used up to {cpu:.0f}%, memory up to {memory:.0f}%. {smaller.type} has room for that.",
            confidence=confidence_by_days(use), risk=Risk.HIGH if use.in_production else Risk.MEDIUM,
            current={"machine_type": use.machine_type}, recommended={"machine_type": smaller.type},
            facts={"cpu_p95_max": cpu, "memory_p95_max": memory},
        )  # fmt: skip

    def _workload(self, use: ResourceUse, options: Any, cpu: float, memory: float) -> Finding | None:
        try:
            requested = Decimal(use.detail("x_CpuRequested"))
        except InvalidOperation:
            return None
        keep = max(cpu, memory) / (100 - options.leave_free)
        smaller = (requested * Decimal(str(keep))).quantize(Decimal("0.1"), ROUND_UP)
        if not 0 < smaller < requested:
            return None
        saving = share_of(use.monthly_on_demand, float(1 - smaller / requested))
        return found(
            use, rule=self.name, kind=Kind.RIGHTSIZE, saving=saving,
            title=f"Let {use.name or use.resource_id} request {smaller} vCPU",
            description=f"It requests {requested} vCPU and uses {cpu:.0f}% of them, and {memory:.0f}% of its memory.",
            confidence=confidence_by_days(use), risk=Risk.MEDIUM,
            current={"cpu_requested": str(requested)}, recommended={"cpu_requested": str(smaller)},
            facts={"cpu_p95_max": cpu, "memory_p95_max": memory},
        )  # fmt: skip
