"""What can be asked of governance."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.governance import models as m

READ, WRITE = "read:governance", "write:governance"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

VALIDATE = Operation(
    "governance.validate", "Hold something against the policies in force", m.Validate, m.Validation, READ,
    description="Valid only when nothing at all is violated. The decision is recorded with the policies' revision.",
    example={
        "context": {"path": "src/app.py", "content": "import requests\n", "dependencies": [{"name": "requests"}]},
        "target_layer": "project",
    },
)  # fmt: skip
CHECK_DRIFT = Operation(
    "governance.drift_check", "Say how far a project has drifted", m.CheckDrift, m.DriftReport, READ,
    description="Failed weight over applicable weight, what is behind it, and what changed since the last check.",
    example={"project": "shop", "context": {"files": [{"path": "src/app.py", "content": "import requests\n"}]}},
)  # fmt: skip
SUPPRESS = Operation(
    "governance.suppress", "Answer for a violation until a day", m.Suppress, m.Suppression, WRITE, Effect.WRITE,
    example={
        "project": "shop", "policy_id": "policy-no-requests", "reason": "replaced in the next release",
        "expires_at": "2027-01-31T00:00:00Z",
    },
)  # fmt: skip
LIST_SUPPRESSIONS = Operation(
    "governance.suppressions", "List suppressions", m.ListSuppressions, Page[m.Suppression], READ
)
LIFT_SUPPRESSION = Operation(
    "governance.unsuppress", "Lift a suppression", m.SuppressionRef, m.Suppression, WRITE, Effect.WRITE,
    example={"suppression_id": _ID},
)  # fmt: skip
LIST_POLICIES = Operation(
    "governance.policies", "List the rules in force", m.ListPolicies, m.PoliciesInForce, READ,
    description="`rules` hold after all policies of the layer and of those above it have met each other. "
    "`action_rules` are what policies say of actions: the approvals they need, and what is forbidden. "
    "Use it to read the policy that a refusal names.",
    example={"target_layer": "project"},
)  # fmt: skip
LIST_DECISIONS = Operation(
    "governance.decisions", "List decisions", m.ListDecisions, Page[m.Decision], READ,
    description="Validations and checks of drift, newest first; with a project, how it drifted over time.",
)  # fmt: skip
REPLAY = Operation(
    "governance.replay", "Decide again under other policies", m.Replay, m.ReplayReport, READ,
    description="Lists the recorded decisions that would be others under the policies of another revision.",
    example={"policy": "main~1"},
)  # fmt: skip
