"""How policies of several layers meet."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.services.governance.policies import LAYERS, Demand, Merge, Mode, Policy, demands_in_force
from dragoman.services.knowledge.constraints import RANK, Constraint, Operator, Severity, Target


def forbids(pattern: str, severity: Severity | None = None) -> Constraint:
    return Constraint.model_validate(
        {"operator": Operator.MUST_NOT_USE, "target": Target.IMPORT, "pattern": pattern, "severity": severity}
    )


def policy(name: str, layer: str, *constraints: Constraint, **terms: object) -> Policy:
    return Policy(id=name, title=name, layer=layer, layer_id=None, constraints=constraints, **terms)  # pyright: ignore[reportArgumentType]


def shown(demands: list[Demand]) -> set[tuple[str, str]]:
    return {(demand.constraint.pattern, demand.severity.value) for demand in demands}


constraints = st.builds(
    forbids, st.sampled_from(["ftplib", "telnetlib", "pickle", "cgi"]), st.sampled_from([None, *Severity])
)


@st.composite
def families(draw: st.DrawFn) -> list[Policy]:
    """Policies of all layers, each of which may extend any other."""
    count = draw(st.integers(1, 7))
    names = [f"p{number}" for number in range(count)]
    return [
        Policy(
            id=name,
            title=name,
            layer=draw(st.sampled_from(LAYERS)),
            layer_id=None,
            constraints=tuple(draw(st.lists(constraints, max_size=4))),
            severity=draw(st.sampled_from(list(Severity))),
            mode=draw(st.sampled_from(list(Mode))),
            merge=draw(st.sampled_from(list(Merge))),
            extends=draw(st.none() | st.sampled_from([*names, "nowhere"])),
        )
        for name in names
    ]


@given(families())
def test_a_mandatory_rule_stays_as_severe_whatever_more_specific_layers_say(family: list[Policy]) -> None:
    in_force = demands_in_force(family)

    for one in family:
        for constraint in one.constraints if one.mandatory else ():
            severities = [RANK[d.severity] for d in in_force if d.constraint.pattern == constraint.pattern]
            assert max(severities, default=-1) >= RANK[constraint.severity or one.severity]


@given(families())
def test_nothing_is_in_force_that_no_policy_demands(family: list[Policy]) -> None:
    demanded = {constraint.pattern for one in family for constraint in one.constraints}

    assert {demand.constraint.pattern for demand in demands_in_force(family)} <= demanded


@given(families())
def test_the_order_in_which_policies_are_read_decides_nothing(family: list[Policy]) -> None:
    assert shown(demands_in_force(family)) == shown(demands_in_force(reversed(family)))


def test_a_child_overrides_what_it_extends_unless_told_otherwise() -> None:
    parent = policy("parent", "company", forbids("pickle"), forbids("cgi"))
    child = policy("child", "project", forbids("pickle", Severity.INFO), extends="parent")

    assert shown(demands_in_force([parent, child])) == {("pickle", "info")}


def test_a_child_that_merges_adds_and_changes() -> None:
    parent = policy("parent", "company", forbids("pickle"), forbids("cgi"))
    child = policy("child", "project", forbids("pickle", Severity.INFO), extends="parent", merge=Merge.MERGE)

    assert shown(demands_in_force([parent, child])) == {("pickle", "info"), ("cgi", "warn")}


def test_a_child_that_intersects_keeps_what_both_demand() -> None:
    parent = policy("parent", "company", forbids("pickle"), forbids("cgi"))
    child = policy("child", "team", forbids("pickle"), forbids("ftplib"), extends="parent", merge=Merge.INTERSECT)

    assert shown(demands_in_force([parent, child])) == {("pickle", "warn")}


def test_a_mandatory_parent_is_not_lessened_by_an_override() -> None:
    parent = policy("parent", "company", forbids("pickle", Severity.BLOCK), mode=Mode.MANDATORY)
    child = policy("child", "project", forbids("pickle", Severity.INFO), extends="parent")

    assert shown(demands_in_force([parent, child])) == {("pickle", "block")}
