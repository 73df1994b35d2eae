"""Where programs may decide, a key counts as who made it: one person is no quorum, however many keys they hold."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.doors.rest.calling import data, problem
from tests.services.approvals.asking import Office, accept_policy, decide

Keys = Callable[..., httpx.Client]
ASKED: dict[str, Any] = {"action": "count.once", "resource": {"type": "counter", "id": "c-1"}, "matter_id": "m-1",
                         "input": {"name": "seven"}}  # fmt: skip


@pytest.fixture
def key_of(office: Office) -> Iterator[Keys]:
    """A client with a key that somebody made."""
    with ExitStack() as stack:

        def make(maker: str, name: str, *, by: httpx.Client | None = None, **given: Any) -> httpx.Client:
            key = {"name": name, "role": "operator", **given}
            made = data((by or office.person(maker, "org_admin")).post("/api/keys", json=key), 201)
            return stack.enter_context(office.server.client(made["secret"]))

        yield make


def ask(office: Office, name: str = "ann", role: str = "operator") -> dict[str, Any]:
    """A request of an action that two must approve, who may be programs."""
    accept_policy(office, "two", approvals={"actions": ["count.*"], "quorum": 2})
    asked = data(office.person(name, role).post("/api/approvals", json=ASKED), 201)
    assert not asked["people_only"]
    return asked


def approve(who: httpx.Client, approval: dict[str, Any]) -> httpx.Response:
    return decide(who, approval, digest=approval["digest"])


@pytest.mark.parametrize("person_first", [True, False])
def test_a_person_and_their_key_are_one(office: Office, key_of: Keys, *, person_first: bool) -> None:
    approval = ask(office)
    both = [office.person("root", "org_admin"), key_of("root", "second")]

    first, second = both if person_first else both[::-1]
    data(approve(first, approval))
    refused = problem(approve(second, approval), 409, "APPROVAL_CLOSED")

    assert refused["details"]["reason"] == "YOU_DECIDED"
    assert office.show(approval)["state"] == "pending"
    assert data(approve(office.person("bob"), approval))["state"] == "approved"


def test_two_keys_of_one_person_are_one_and_of_two_are_two(office: Office, key_of: Keys) -> None:
    approval = ask(office)
    data(approve(key_of("root", "one"), approval))

    problem(approve(key_of("root", "two"), approval), 409, "APPROVAL_CLOSED")
    decided = data(approve(key_of("rita", "three"), approval))

    assert (decided["state"], len(decided["decisions"])) == ("approved", 2)


def test_a_key_that_a_key_made_counts_as_who_made_the_first(office: Office, key_of: Keys) -> None:
    approval = ask(office)
    data(approve(office.person("root", "org_admin"), approval))
    first = key_of("root", "first", role="org_admin")

    problem(approve(key_of("", "second", by=first), approval), 409, "APPROVAL_CLOSED")


def test_a_key_does_not_approve_what_its_maker_asks_for(office: Office, key_of: Keys) -> None:
    approval = ask(office, "rita", "org_admin")

    problem(approve(key_of("rita", "mine"), approval), 403, "SELF_APPROVAL")


def test_a_key_in_a_persons_name_is_recorded_as_a_program(office: Office, key_of: Keys) -> None:
    approval = ask(office)

    decided = data(approve(key_of("root", "ghost", subject="bob", principal_type="user"), approval))

    assert [(one["by"], one["type"]) for one in decided["decisions"]] == [("bob", "service")]
