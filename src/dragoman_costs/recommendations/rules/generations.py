"""Machines of a generation that has been replaced, and machines for which there are cheaper processors."""

from typing import Any

from pydantic import Field

from dragoman_costs.recommendations.evidence import ResourceUse, share_of
from dragoman_costs.recommendations.findings import (
    Confidence,
    Finding,
    Kind,
    Options,
    Risk,
    confidence_by_days,
    found,
)
from dragoman_costs.recommendations.machines import find_arm, find_successor


class Generation:
    """Recommends the current generation of a machine."""

    name = "generation"
    summary = "Machines of a previous generation move to the current one, which does the same for less."
    options = Options

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return the successor of its type."""
        del options
        successor = find_successor(use.machine_type)
        if successor is None:
            return None
        return found(
            use, rule=self.name, kind=Kind.MIGRATE, saving=share_of(use.monthly_on_demand, successor.saves),
            title=f"Move {use.name or use.resource_id} to {successor.type}",
            description=f"{successor.type} replaces {use.machine_type}: same size, {successor.saves:.0%} less.",
            confidence=confidence_by_days(use), risk=Risk.MEDIUM,
            current={"machine_type": use.machine_type}, recommended={"machine_type": successor.type},
            facts={"price_share_saved": successor.saves},
        )  # fmt: skip


class MigrateOptions(Options):
    """What does not run on ARM."""

    min_saving: float = Field(15.0, ge=0, le=1e9, strict=True, description="The least monthly saving worth telling of.")
    keep_tags: list[str] = Field(
        ["os=windows", "arch=x86"], max_length=100, description="Tags, `key=value`, of what needs its processors."
    )


class Migrate:
    """Recommends ARM processors."""

    name = "migrate"
    summary = "Machines of the current generation move to ARM processors, unless tags say that they cannot."
    options = MigrateOptions

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return the type with ARM processors. It is never certain: the software has to run there."""
        if find_successor(use.machine_type) is not None:
            return None
        arm = find_arm(use.machine_type)
        tagged = {f"{key}={value}".lower() for key, value in use.tags.items()}
        if arm is None or not tagged.isdisjoint(tag.lower() for tag in options.keep_tags):
            return None
        confidence = confidence_by_days(use, certain=False)
        return found(
            use, rule=self.name, kind=Kind.MIGRATE, saving=share_of(use.monthly_on_demand, arm.saves),
            title=f"Move {use.name or use.resource_id} to ARM: {arm.type}",
            description=f"{arm.type} costs {arm.saves:.0%} less. Build and test the software for ARM first.",
            confidence=Confidence.LOW if confidence is Confidence.LOW else Confidence.MEDIUM,
            risk=Risk.HIGH if use.in_production else Risk.MEDIUM,
            current={"machine_type": use.machine_type, "architecture": "x86_64"},
            recommended={"machine_type": arm.type, "architecture": "arm64"},
            facts={"price_share_saved": arm.saves},
        )  # fmt: skip
