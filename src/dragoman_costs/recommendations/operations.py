"""What can be asked of recommendations."""

from dragoman.operations import Binding, Effect, Operation, Page
from dragoman_costs.recommendations import models as m

READ, WRITE = "read:recommendations", "write:remediation"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

LIST = Operation(
    "recommendation.list", "List recommendations to save", m.ListRecommendations, Page[m.Recommendation], READ,
    part_of="costs",
    description="What could be saved, with the saving of a month, confidence and risk; the largest saving first. "
    "Filter by status (pending, approved, executed, dismissed, expired), type, rule, account, confidence and currency.",
    example={"status": "pending", "type": "rightsize"},
)  # fmt: skip
GET = Operation(
    "recommendation.get", "Show a recommendation with its evidence", m.RecommendationRef, m.RecommendationView,
    READ, part_of="costs",
    description="Returns what is recommended, the rows of the bills that it rests on, who decided, and the outcome.",
    example={"recommendation_id": _ID},
)  # fmt: skip
DECIDE = Operation(
    "recommendation.decide", "Approve or dismiss a recommendation", m.DecideRecommendation, m.RecommendationView,
    WRITE, Effect.WRITE, part_of="costs",
    description="`approve` allows `recommendation_execute`; `dismiss`, with a `reason`, ends it until it changes "
    "materially. Programs approve only what has low risk.",
    example={"recommendation_id": _ID, "decision": "approve", "reason": "agreed with the team"},
)  # fmt: skip
EXECUTE = Operation(
    "recommendation.execute", "Carry out an approved recommendation", m.ExecuteRecommendation, m.Execution, WRITE,
    Effect.WRITE, long=True, sensitive=True, part_of="costs",
    description="Hands it over as a task to the worker that the tenant registered for `remediation.execute`. Where "
    "there is none, the task makes a plan and changes nothing. What has high risk waits for the approval of an "
    "org_admin who did not ask for it.",
    example={"recommendation_id": _ID},
)  # fmt: skip
SAVINGS = Operation(
    "recommendation.savings", "Show savings that were found, approved, executed and realised", m.ShowSavings,
    m.SavingsReport, READ, part_of="costs",
    description="Realised savings are computed from the bills since the execution; each says by which method, from how "
    "many days, and whether it is too early.",
)  # fmt: skip
RULES = Operation(
    "recommendation.rules", "Show the rules that look for savings", m.ListRules, m.Rules, READ, part_of="costs",
    description="Thresholds and exclusions of each rule, with the schema of its thresholds.",
    example={"rule": "rightsize"},
)  # fmt: skip
CONFIGURE = Operation(
    "recommendation.configure", "Set thresholds and exclusions of a rule", m.ConfigureRule, m.RuleView, WRITE,
    Effect.WRITE, part_of="costs",
    description="`thresholds` as in the schema that `recommendation_rules` shows; `exclusions` name accounts, regions, "
    "services, resources and tags that the rule leaves alone.",
    example={"rule": "rightsize", "thresholds": {"cpu_below": 30.0}, "exclusions": {"tags": ["keep", "team=core"]}},
)  # fmt: skip

BINDINGS = (
    Binding("GET", "/api/recommendations", LIST),
    Binding("GET", "/api/recommendations/savings", SAVINGS),
    Binding("GET", "/api/recommendation-rules", RULES),
    Binding("PATCH", "/api/recommendation-rules/{rule}", CONFIGURE),
    Binding("GET", "/api/recommendations/{recommendation_id}", GET),
    Binding("POST", "/api/recommendations/{recommendation_id}/decide", DECIDE),
    Binding("POST", "/api/recommendations/{recommendation_id}/execute", EXECUTE),
)
