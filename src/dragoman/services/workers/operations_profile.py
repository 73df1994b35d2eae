"""The operation on the contracts profile."""

from dragoman.operations import Operation
from dragoman.services.workers.profile import ContractsProfile, ShowProfile

SHOW_PROFILE = Operation(
    "profile.show", "Show the contracts profile", ShowProfile, ContractsProfile, "read:tasks",
    description="Use it before you delegate contract work: actions, governance modes, evidence, endpoints and the "
    "schema of the envelope. `version` is the version of the profile to show.",
    example={"version": "1.0"},
)  # fmt: skip
