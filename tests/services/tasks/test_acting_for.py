"""For whom an agent acts: a name under a grant is checked and counts, any other is a claim and excludes nobody."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from dragoman.infra.auth.tokens import Grant
from tests.backstage import add_tenant, sql
from tests.doors.a2a.calling import A2A
from tests.doors.a2a.tool_calls import by_message
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import data, problem
from tests.harness import Server, wait_for
from tests.services.approvals.asking import Office, accept_policy, decide
from tests.services.tasks.envelopes import ended, envelope, submit
from tests.services.tasks.test_governance import counted, governed

Json = dict[str, Any]


class Agency(Office):
    """People, and an agent that acts for one of them."""

    @cached_property
    def bot(self) -> httpx.Client:
        """The agent, by a token that says what it is."""
        return self._clients.setdefault(("bot", "token"), self.server.client(self.bot_token))

    @cached_property
    def bot_token(self) -> str:
        return self.server.issuer().mint(Grant(self.tenant, "bot", ["agent"], type="agent"))


@pytest.fixture
def office(counting: Server) -> Iterator[Agency]:
    opened = Agency(counting, add_tenant(counting))
    yield opened
    opened.close()
    while A2A.opened:
        A2A.opened.pop().close()
    while Mcp.opened:
        Mcp.opened.pop().close()


def for_ann(action: str = "count.secret", **actor: Any) -> Json:
    """An envelope of the agent's on behalf of ann."""
    acting = {"id": "bot", "type": "agent", "on_behalf_of": "ann", **actor}
    return envelope(action, {"name": f"n-{uuid4().hex}"}, actor=acting)


def grant(office: Agency, **given: Any) -> Json:
    """Ann lets the agent act for her."""
    return data(office.person("ann").post("/api/grants", json={"agent": "bot", **given}), 201)


def asked(office: Agency, given: Json) -> Json:
    """The approval that the refusal of the agent's envelope proposes."""
    refused = problem(office.bot.post("/api/tasks", json=given), 403, "GOVERNANCE_CONTEXT_REQUIRED")
    request = next(one["request"] for one in refused["details"]["missing"] if "request" in one)
    return data(office.bot.post("/api/approvals", json=request), 201)


def records(office: Agency, operation: str) -> list[Json]:
    return data(
        office.person("root", "org_admin").get("/api/audit", params={"operation": operation, "outcome": "done"})
    )


def test_who_has_it_done_under_a_grant_cannot_approve_it_and_may_deny_it(office: Agency, outside: Path) -> None:
    made, given = grant(office), for_ann()
    approval = asked(office, given)

    assert (approval["parties"], approval["claims"]) == (["ann", "bot"], [])
    assert approval["grants"] == {"ann": made["grant_id"]}
    problem(decide(office.person("ann"), approval), 403, "SELF_APPROVAL")
    data(decide(office.person("bob"), approval))
    task = submit(office.bot, governed(given, approval))

    view = ended(office.bot, task["task_id"])
    assert (view["state"], counted(outside, given)) == ("succeeded", 1)
    assert (view["on_behalf_of"], view["claims"]) == ("ann", [])
    assert view["governance"]["on_behalf_of"] == {"subject": "ann", "verified": True, "grant": made["grant_id"]}
    for operation in ("task.submit", "task.complete"):
        [record] = records(office, operation)
        assert (record["details"]["on_behalf_of"], record["details"]["grant"]) == ("ann", made["grant_id"])
    second = asked(office, for_ann())
    assert data(decide(office.person("ann"), second, "deny"))["state"] == "denied"


def test_a_name_without_a_grant_is_a_claim_on_every_view_and_excludes_nobody(office: Agency, outside: Path) -> None:
    given = for_ann()
    approval = asked(office, given)
    environment = {"DRAGOMAN_TOKEN": office.bot_token}

    assert (approval["parties"], approval["claims"], approval["grants"]) == (["bot"], ["ann"], {})
    data(decide(office.person("ann"), approval))
    task_id = submit(office.bot, governed(given, approval))["task_id"]

    view = ended(office.bot, task_id)
    assert (view["state"], counted(outside, given)) == ("succeeded", 1)
    by_a2a, mcp = A2A(office.server), Mcp(office.server)
    for client in (by_a2a.http, mcp.http):
        client.headers["authorization"] = f"Bearer {office.bot_token}"
    by_mcp = mcp.call("task_status", {"task_id": task_id})["structuredContent"]
    listed = [one for one in data(office.bot.get("/api/tasks")) if one["task_id"] == task_id]
    approvals = data(office.person("bob").get("/api/approvals"))
    shown = [view, by_mcp, by_message(by_a2a)("task_status", task_id=task_id), *listed, *approvals]
    shown.append(by_a2a.call("GetTask", {"id": task_id})["metadata"])
    assert [(one["on_behalf_of"], one["claims"]) for one in shown] == [("ann", ["ann"])] * 6
    for words in (("task", "status", task_id), ("approval", "show", approval["approval_id"])):
        assert "ann (a claim" in office.server.cli(*words, environment=environment).stdout
    for operation in ("task.submit", "task.complete"):
        [record] = records(office, operation)
        assert (record["details"]["on_behalf_of"], record["details"]["claims"]) == ("ann", ["on_behalf_of"])
        assert "grant" not in record["details"]


def test_who_approved_it_cannot_have_it_done_for_them(office: Agency) -> None:
    """Bob approves what carol asked for; an agent then submits it in his name."""
    given = for_ann(on_behalf_of="bob")
    request = {"action": given["action"], "resource": given["resource"], "matter_id": "matter-1"}
    approval = office.ask("carol", **request, input=given["input"])
    data(decide(office.person("bob"), approval))
    data(office.person("bob").post("/api/grants", json={"agent": "bot"}), 201)

    refused = office.bot.post("/api/tasks", json=governed(given, approval))

    problem(refused, 403, "SELF_APPROVAL")


@pytest.mark.parametrize("how", ["other action", "expired", "ended", "other agent"])
def test_a_grant_that_does_not_cover_it_leaves_a_claim(office: Agency, how: str) -> None:
    made = grant(office, **{"other action": {"actions": ["count.once", "document.*"]},
                            "other agent": {"agent": "bot2"}}.get(how, {}))  # fmt: skip
    if how == "expired":
        statement = "UPDATE grants SET expires_at = now() - interval '1 second' WHERE id = $1::text::uuid"
        sql(office.server, statement, made["grant_id"])
    elif how == "ended":
        data(office.person("ann").post(f"/api/grants/{made['grant_id']}/end", json={}))

    approval = asked(office, for_ann())

    assert (approval["parties"], approval["claims"]) == (["bot"], ["ann"])


def test_a_grant_for_a_family_of_actions_covers_them_all(office: Agency) -> None:
    grant(office, actions=["count.*"])

    assert asked(office, for_ann())["claims"] == []


def test_a_requester_makes_nobody_a_party_by_the_grant_of_another(office: Agency) -> None:
    """Carol names an agent that may act for ann; she herself may not."""
    grant(office)

    approval = office.ask("carol", actor="bot", on_behalf_of="ann")

    assert (approval["parties"], approval["claims"]) == (["carol"], ["bot", "ann"])


def test_a_task_whose_grant_ended_before_it_was_performed_is_rejected(office: Agency, outside: Path) -> None:
    made, given = grant(office), for_ann()
    approval = asked(office, given)
    task = submit(office.bot, governed(given, approval))
    assert task["state"] == "input_required"

    data(office.person("ann").post(f"/api/grants/{made['grant_id']}/end", json={}))
    data(decide(office.person("bob"), approval))

    view = ended(office.bot, task["task_id"])
    assert (view["state"], view["error"]["details"]["reason"]) == ("rejected", "GRANT_ENDED")
    assert counted(outside, given) == 0
    shown = wait_for(lambda: (row := office.show(approval))["state"] and row, "the approval")
    assert shown["consumed_by"] is None


def test_an_actor_that_the_caller_may_act_for_is_taken_as_acting_for_it(office: Agency) -> None:
    given = envelope("count.nothing", actor={"id": "ann", "type": "human"})

    refused = problem(office.bot.post("/api/tasks", json=given), 403, "UNAUTHORIZED")
    made = grant(office)
    task = submit(office.bot, given)

    assert refused["details"]["reason"] == "ACTOR_MISMATCH"
    view = ended(office.bot, task["task_id"])
    assert (view["state"], view["actor"], view["on_behalf_of"], view["claims"]) == ("succeeded", "bot", "ann", [])
    [record] = records(office, "task.submit")
    assert (record["subject"], record["details"]["actor"], record["details"]["grant"]) == (
        "bot", "bot", made["grant_id"]
    )  # fmt: skip


def test_a_person_acts_for_another_under_a_grant_only(office: Agency) -> None:
    given = envelope("count.nothing", actor={"id": "carol", "type": "human", "on_behalf_of": "ann"})
    carol = office.person("carol")

    refused = problem(carol.post("/api/tasks", json=given), 403, "UNAUTHORIZED")
    grant(office, agent="carol")

    assert refused["details"]["reason"] == "ACTOR_MISMATCH"
    assert ended(carol, submit(carol, given)["task_id"])["claims"] == []


@pytest.mark.parametrize("stated", ["service", "human"])
def test_an_agent_does_not_pass_for_more_than_its_credentials_prove(office: Agency, stated: str) -> None:
    given = envelope("count.nothing", actor={"id": "bot", "type": stated})

    refused = problem(office.bot.post("/api/tasks", json=given), 403, "UNAUTHORIZED")

    assert refused["details"]["reason"] == "ACTOR_MISMATCH"


def test_a_program_that_acts_for_a_party_does_not_approve_for_it(office: Agency) -> None:
    accept_policy(office, "programs-may", approvals={"actions": ["count.once"], "roles": ["operator"]})
    robot = office.program("robot")
    data(office.person("ann").post("/api/grants", json={"agent": "key:robot"}), 201)
    request: Json = {"action": "count.once", "resource": {"type": "counter", "id": "c-1"}, "input": {"name": "n"}}
    approval, other = office.ask("ann", **request), office.ask("bob", **request)

    problem(decide(robot, approval, digest=approval["digest"]), 403, "SELF_APPROVAL")
    assert data(decide(robot, other, digest=other["digest"]))["state"] == "approved"
