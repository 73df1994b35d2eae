"""Volumes that no machine uses, and snapshots that are old."""

from datetime import date
from typing import Any

from pydantic import Field

from dragoman_costs.recommendations.evidence import ResourceUse
from dragoman_costs.recommendations.findings import Finding, Kind, Options, Risk, confidence_by_days, found

_UNATTACHED = frozenset({"available", "unattached", "detached", "unused"})


class UnattachedVolume:
    """Recommends to delete volumes that no machine uses."""

    name = "unattached_volume"
    summary = "Volumes that no machine has used for days are backed up and deleted."
    options = Options

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return that it can go, after a snapshot."""
        del options
        if use.detail("x_VolumeState").lower() not in _UNATTACHED:
            return None
        return found(
            use, rule=self.name, kind=Kind.TERMINATE, saving=use.monthly_on_demand,
            title=f"Delete the volume {use.name or use.resource_id}: no machine uses it",
            description=f"It was billed without a machine on {len(use.lines)} days. A snapshot keeps its content.",
            confidence=confidence_by_days(use), risk=Risk.MEDIUM,
            current={"state": "unattached"}, recommended={"state": "deleted", "snapshot_first": True},
            facts={"quantity": str(use.lines[-1].quantity), "unit": use.unit},
        )  # fmt: skip


class SnapshotOptions(Options):
    """When a snapshot is old."""

    older_than_days: int = Field(90, ge=1, le=3650, strict=True, description="The age from which it is old.")


class OldSnapshot:
    """Recommends to delete snapshots that are old."""

    name = "old_snapshot"
    summary = "Snapshots beyond an age are deleted."
    options = SnapshotOptions

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return that it can go. Where the bill does not say when it was made, it is as old as its first row."""
        if "snapshot" not in f"{use.type} {use.description}".lower():
            return None
        last = use.lines[-1].day
        told = use.detail("x_CreatedAt")[:10]
        try:
            made = date.fromisoformat(told) if told else use.first_seen
        except ValueError:
            made = use.first_seen
        age = (last - made).days
        if age < options.older_than_days:
            return None
        return found(
            use, rule=self.name, kind=Kind.TERMINATE, saving=use.monthly,
            title=f"Delete the old snapshot {use.name or use.resource_id}",
            description=f"It was made on {made} or before.",
            confidence=confidence_by_days(use, certain=bool(told)), risk=Risk.LOW,
            current={"state": "kept", "made_on": made.isoformat()}, recommended={"state": "deleted"},
            facts={"age_days": age, "made_on_from": "x_CreatedAt" if told else "first row"},
        )  # fmt: skip
