"""The figures of drift."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.governance.drift import WEIGHTS, measure
from dragoman.services.governance.models import Suppression
from dragoman.services.governance.policies import Demand, Policy
from dragoman.services.knowledge.constraints import Constraint, Operator, Place, Rule, Severity, Target, Violation

NEVER = datetime(2100, 1, 1, tzinfo=UTC)


def demand(number: int, severity: Severity) -> Demand:
    constraint = Constraint.model_validate(
        {"operator": Operator.MUST_NOT_USE, "target": Target.IMPORT, "pattern": f"module{number}"}
    )
    author = Policy(id=f"p{number}", title=f"P{number}", layer="company", layer_id=None, constraints=(constraint,))
    return Demand(author, constraint, severity)


def violation(of: Demand, file: str = "src/app.py") -> Violation:
    return Violation(Rule(of.policy.id, of.policy.title, of.constraint, of.severity), "not here", Place(file, 1))


def suppression(policy_id: str, *, pattern: str | None = None, path: str | None = None) -> Suppression:
    return Suppression(
        id=UUID(int=1), project="shop", policy_id=policy_id, pattern=pattern, path=path, reason="known", owner="ada",
        created_by="ada", created_at=datetime.now(UTC), expires_at=NEVER,
    )  # fmt: skip


def test_the_score_is_failed_weight_over_applicable_weight() -> None:
    demands = [demand(0, Severity.BLOCK), demand(1, Severity.WARN), demand(2, Severity.INFO), demand(3, Severity.BLOCK)]

    drift = measure(demands, {0, 1, 2}, [violation(demands[1]), violation(demands[1], "b.py")], [])

    assert (drift.failed_weight, drift.applicable_weight, drift.score) == (0.5, 1.6, 0.3125)
    assert [one.policy.id for one in drift.idle] == ["p3"]
    assert drift.confidence == round(1.6 / 2.6, 4)


def test_what_is_suppressed_counts_as_met_and_is_shown() -> None:
    demands = [demand(0, Severity.BLOCK)]
    found = violation(demands[0])

    drift = measure(demands, {0}, [found], [suppression("p0")])

    assert (drift.score, drift.violations, [one for one, _ in drift.suppressed]) == (0.0, [], [found])


def test_a_suppression_of_one_file_leaves_the_others() -> None:
    demands = [demand(0, Severity.BLOCK)]
    found = [violation(demands[0], "legacy/a.py"), violation(demands[0], "src/b.py")]

    drift = measure(demands, {0}, found, [suppression("p0", path="legacy/*")])

    assert (drift.score, drift.violations) == (1.0, [found[1]])


def test_a_suppression_of_another_policy_or_rule_suppresses_nothing() -> None:
    demands = [demand(0, Severity.WARN)]
    found = [violation(demands[0])]

    drift = measure(demands, {0}, found, [suppression("p1"), suppression("p0", pattern="elsewhere")])

    assert drift.violations == found


@given(st.lists(st.tuples(st.sampled_from(list(Severity)), st.booleans(), st.booleans()), max_size=12))
def test_the_score_is_a_share_and_grows_with_what_fails(rows: list[tuple[Severity, bool, bool]]) -> None:
    demands = [demand(number, severity) for number, (severity, _, _) in enumerate(rows)]
    applied = {number for number, (_, applies, _) in enumerate(rows) if applies}
    failing = [demands[number] for number in sorted(applied) if rows[number][2]]

    drift = measure(demands, applied, [violation(one) for one in failing], [])
    less = measure(demands, applied, [violation(one) for one in failing[1:]], [])

    assert 0.0 <= less.score <= drift.score <= 1.0
    assert abs(drift.failed_weight - sum(WEIGHTS[one.severity] for one in failing)) < 0.001
