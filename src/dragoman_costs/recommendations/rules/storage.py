"""Objects in a storage class for what is read often, that is not read."""

from typing import Any, Final

from pydantic import Field

from dragoman_costs.recommendations.evidence import ResourceUse, share_of
from dragoman_costs.recommendations.findings import Finding, Kind, Options, Risk, confidence_by_days, found

# The class for what is read seldom, and the share of the price that it saves.
_COLDER: Final = {"standard": ("infrequent access", 0.45), "hot": ("Cool", 0.45)}


class StorageOptions(Options):
    """When objects are cold."""

    read_share_below: float = Field(
        0.05, gt=0, le=1, strict=True, description="Share of the stored bytes that was read in the last 30 days."
    )


class StorageClass:
    """Recommends a colder storage class for objects that are not read."""

    name = "storage_class"
    summary = "Objects that are hardly read move to a storage class for what is read seldom."
    options = StorageOptions

    def examine(self, use: ResourceUse, options: Any) -> Finding | None:
        """Return the colder class."""
        read = use.highest("reads")
        colder = _COLDER.get(use.detail("x_StorageClass").lower())
        if read is None or colder is None or read >= options.read_share_below:
            return None
        name, saves = colder
        return found(
            use, rule=self.name, kind=Kind.MIGRATE, saving=share_of(use.monthly, saves),
            title=f"Keep {use.name or use.resource_id} in {name}",
            description=f"{read:.1%} of it was read in a month. {name} costs {saves:.0%} less to keep.",
            confidence=confidence_by_days(use), risk=Risk.LOW,
            current={"storage_class": use.detail("x_StorageClass")}, recommended={"storage_class": name},
            facts={"read_share_30d": read, "price_share_saved": saves},
        )  # fmt: skip
