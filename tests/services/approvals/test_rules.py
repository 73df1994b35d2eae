"""What policies say on approvals, and how several of them meet."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.context import Role
from dragoman.infra.digests import digest_of
from dragoman.services.approvals.errors import PolicyRefused
from dragoman.services.approvals.requirements import moved, requirement
from dragoman.services.governance.approval_rules import BUILT_IN, BUILT_IN_VERSION, ApprovalRule, read_rule
from dragoman.services.governance.policies import Policy
from dragoman.services.governance.ports import PolicyBook

rules = st.builds(
    ApprovalRule,
    actions=st.sampled_from([("signature.*",), ("*",), ("document.draft",)]),
    quorum=st.integers(1, 5),
    roles=st.none() | st.sets(st.sampled_from([Role.ORG_ADMIN, Role.OPERATOR]), min_size=1).map(frozenset),
    people_only=st.booleans(),
    valid_hours=st.none() | st.integers(1, 500),
)


def book(*found: ApprovalRule) -> PolicyBook:
    policies = [
        Policy(id=f"p{number}", title="P", layer="company", layer_id=None, approvals=rule, version=f"v{number}")
        for number, rule in enumerate(found)
    ]
    return PolicyBook("a" * 40, tuple(policies))


@given(st.lists(rules, max_size=5), st.booleans())
def test_no_policy_is_ever_lessened_by_another(found: list[ApprovalRule], sensitive: bool) -> None:
    covering = [rule for rule in found if rule.covers("signature.send")] + ([BUILT_IN] if sensitive else [])
    try:
        needed = requirement(book(*found), "signature.send", sensitive=sensitive)
    except PolicyRefused:
        roles = [rule.roles for rule in covering if rule.roles is not None]
        assert not frozenset.intersection(*roles)
        return

    for rule in covering:
        assert needed.quorum >= rule.quorum
        assert rule.roles is None or needed.roles <= rule.roles
        assert needed.people_only or not rule.people_only
        assert rule.valid_hours is None or needed.valid_for <= timedelta(hours=rule.valid_hours)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("yes", ApprovalRule(("*",), quorum=2, people_only=True)),
        ({}, ApprovalRule(("*",))),
        ({"actions": []}, ApprovalRule(("*",))),
        ({"actions": ["a.b"], "quorum": "many"}, ApprovalRule(("a.b",), quorum=2)),
        ({"actions": ["a.b"], "quorum": 0}, ApprovalRule(("a.b",), quorum=2)),
        ({"actions": ["a.b"], "quorum": True}, ApprovalRule(("a.b",), quorum=2)),
        ({"actions": ["a.b"], "roles": ["king"]}, ApprovalRule(("a.b",), roles=frozenset({Role.ORG_ADMIN}))),
        ({"actions": ["a.b"], "roles": 7}, ApprovalRule(("a.b",), roles=frozenset({Role.ORG_ADMIN}))),
        ({"actions": ["a.b"], "people_only": "no"}, ApprovalRule(("a.b",), people_only=True)),
        ({"actions": ["a.b"], "valid_hours": -1}, ApprovalRule(("a.b",), valid_hours=24)),
        ({"actions": ["a.b"], "quota": 2}, ApprovalRule(("a.b",))),
    ],
)
def test_what_is_said_wrongly_is_complained_about_and_read_in_the_stricter_way(said: Any, read: ApprovalRule) -> None:
    rule, complaints = read_rule(said)

    assert (rule, len(complaints) > 0) == (read, True)


def test_what_is_said_rightly_is_read_without_complaint() -> None:
    said = {"actions": ["signature.*"], "quorum": 2, "roles": ["org_admin"], "people_only": True, "valid_hours": 48}

    rule, complaints = read_rule(said)

    assert rule == ApprovalRule(("signature.*",), 2, frozenset({Role.ORG_ADMIN}), people_only=True, valid_hours=48)
    assert (complaints, rule.covers("signature.send"), rule.covers("document.draft")) == ([], True, False)


def test_an_approval_is_overtaken_by_a_policy_that_changed_went_or_came() -> None:
    rule = ApprovalRule(("signature.*",))
    now = book(rule, rule)

    assert moved(now, "signature.send", {"p0": "v0", "p1": "v1", "contracts-approval": "1"}) == []
    assert moved(now, "signature.send", {"p0": "older", "p1": "v1"}) == ["p0"]
    assert moved(now, "signature.send", {"p0": "v0", "p1": "v1", "gone": "v9"}) == ["gone"]
    assert moved(now, "signature.send", {"p0": "v0"}) == ["p1"]
    assert moved(now, "document.draft", {"contracts-approval": "1"}) == []


def test_our_own_policy_has_another_version_when_it_says_something_else() -> None:
    """Who changes the rule changes the version and this digest: approvals given under the old one are then stale."""
    said = [BUILT_IN.quorum, sorted(BUILT_IN.roles or ()), BUILT_IN.people_only, BUILT_IN.valid_hours]

    assert (BUILT_IN_VERSION, digest_of("policy", said).hex()[:16]) == ("1", "ffa3c0eab52d6e9b")
