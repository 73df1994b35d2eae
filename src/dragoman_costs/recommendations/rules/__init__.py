"""The rules: each looks for one kind of waste."""

from typing import Final

from dragoman_costs.recommendations.findings import Options, Rule
from dragoman_costs.recommendations.rules.commitments import Commitment
from dragoman_costs.recommendations.rules.disks import OldSnapshot, UnattachedVolume
from dragoman_costs.recommendations.rules.generations import Generation, Migrate
from dragoman_costs.recommendations.rules.machines_idle import TerminateIdle
from dragoman_costs.recommendations.rules.machines_too_large import Rightsize
from dragoman_costs.recommendations.rules.schedules import Schedule
from dragoman_costs.recommendations.rules.storage import StorageClass

RULES: Final[tuple[Rule, ...]] = (
    TerminateIdle(), UnattachedVolume(), OldSnapshot(), Rightsize(), Schedule(), Generation(), Migrate(),
    StorageClass(),
)  # fmt: skip
COMMITMENT: Final = Commitment()
OPTIONS: Final[dict[str, type[Options]]] = {
    **{rule.name: rule.options for rule in RULES}, COMMITMENT.name: COMMITMENT.options,
}  # fmt: skip
SUMMARIES: Final = {**{rule.name: rule.summary for rule in RULES}, COMMITMENT.name: COMMITMENT.summary}
