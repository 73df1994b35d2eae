"""Machines for development and tests that run at night and on weekends."""

from decimal import Decimal
from typing import Any, Final

from pydantic import Field

from dragoman_costs.recommendations.evidence import ResourceUse, share_of
from dragoman_costs.recommendations.findings import Finding, Kind, Options, Risk, confidence_by_days, found

_HOURS_OF_WEEK: Final = 24 * 7
_WORKING_DAYS: Final = 5
_HOURLY: Final = frozenset({"hours", "hour", "hrs", "instance-hours"})


class ScheduleOptions(Options):
    """Which stages sleep, and how long they are awake."""

    environments: list[str] = Field(
        ["dev", "development", "test", "testing", "qa", "staging", "sandbox"], max_length=50,
        description="Values of the tag `environment` of what may be off at night.",
    )  # fmt: skip
    hours_needed: int = Field(12, ge=1, le=23, strict=True, description="Hours that it runs on a working day.")
    runs_above: float = Field(20.0, gt=0, le=24, strict=True, description="Hours a day from which it runs at night.")


class Schedule:
    """Recommends to switch off at night and on weekends what is not production."""

    name = "schedule"
    summary = "Machines that are not production and run day and night are off at night and on weekends."
    options = ScheduleOptions

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return a schedule. The hours are those that the bill counts, on working days and on weekends."""
        stages = {stage.lower() for stage in options.environments}
        if use.environment not in stages or use.unit.lower() not in _HOURLY or not use.machine_type:
            return None
        hours = sum((line.quantity for line in use.lines), Decimal(0)) / len(use.lines)
        if hours < Decimal(str(options.runs_above)):
            return None
        awake = options.hours_needed * _WORKING_DAYS
        return found(
            use, rule=self.name, kind=Kind.SCHEDULE,
            saving=share_of(use.monthly_on_demand, 1 - awake / _HOURS_OF_WEEK),
            title=f"Switch {use.name or use.resource_id} off at night and on weekends",
            description=f"It is tagged {use.environment} and ran {hours:.0f} hours a day.",
            confidence=confidence_by_days(use), risk=Risk.LOW,
            current={"hours_a_week": _HOURS_OF_WEEK},
            recommended={"hours_a_week": awake, "days": "monday to friday", "hours_a_day": options.hours_needed},
            facts={"hours_a_day": f"{hours:.1f}", "environment": use.environment},
        )  # fmt: skip
