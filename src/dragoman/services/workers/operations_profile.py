"""What can be asked about the contracts profile."""

from dragoman.operations import Operation
from dragoman.services.workers.profile import ContractsProfile, ShowProfile

SHOW_PROFILE = Operation(
    "profile.show", "Show what can be delegated here", ShowProfile, ContractsProfile, "read:tasks",
    description="The versioned contracts profile: actions, governance modes, evidence, endpoints.",
    example={"version": "1.0"},
)  # fmt: skip
