from collections.abc import Iterator

import pytest

from dragoman.infra.config import load_settings
from tests.backstage import metrics
from tests.doors.a2a.calling import A2A, CONFORMANCE, state, text, tool
from tests.doors.rest.calling import new_tenant
from tests.harness import InProcess, Server
from tests.minutes import in_one_minute

CALL = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": text("hello")}


@pytest.fixture(scope="module")
def strict() -> Iterator[Server]:
    """Five messages a minute and tenant, two calls of the skill audit."""
    limits = {"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "5", "DRAGOMAN_LIMITS__SKILL_PER_MIN": '{"audit": 2}'}
    with InProcess(CONFORMANCE | limits) as running:
        yield running


@pytest.mark.parametrize("token", [None, "nonsense", "a.b.c"])
def test_nobody_gets_in_without_credentials(served: Server, token: str | None) -> None:
    with served.client(token) as stranger:
        answers = [
            stranger.post("/a2a", json=CALL),
            stranger.post("/a2a/rest/message:send", json=CALL["params"]),
            stranger.get("/a2a/rest/tasks"),
            stranger.get("/a2a/rest/extendedAgentCard"),
        ]

    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.req("RAD-H3-1")
@in_one_minute
def test_a_tenants_messages_are_limited_and_those_of_others_are_not(strict: Server) -> None:
    tenant = new_tenant(strict, plan="standard")["slug"]
    caller, colleague = A2A(strict, tenant=tenant), A2A(strict, tenant=tenant, user="colleague")
    for call in (text("hello"), tool("identity_show"), text("hello"), tool("identity_show"), text("hello")):
        assert state(caller.send(call)) == "COMPLETED"

    over = [colleague.post(CALL), caller.http.post("/a2a/rest/message:send", json=tool("identity_show"))]

    for answer in over:
        assert answer.status_code == 429
        assert int(answer.headers.get_list("retry-after", split_commas=True)[0]) > 0
    assert over[0].json()["code"] == "RATE_LIMITED"
    assert over[1].json()["error"]["details"][0]["reason"] == "RATE_LIMITED"
    at_once = text("hello", configuration={"returnImmediately": True})
    assert caller.post({**CALL, "params": at_once}).status_code == 429
    assert caller.call("ListTasks", {})["totalSize"] == 5
    assert state(A2A(strict, tenant=new_tenant(strict)["slug"]).send(text("hello"))) == "COMPLETED"


@pytest.mark.req("RAD-H3-2")
@pytest.mark.parametrize(("plan", "messages"), [("free", 2), ("standard", 5), ("enterprise", 50)])
@in_one_minute
def test_the_plan_of_a_tenant_sets_how_many_messages_it_has(strict: Server, plan: str, messages: int) -> None:
    caller = A2A(strict, tenant=new_tenant(strict, plan=plan)["slug"])

    answers = [caller.post(CALL).status_code for _ in range(messages + 1)]

    assert answers == [200] * messages + [429]


@pytest.mark.req("RAD-H3-2")
@in_one_minute
def test_a_skill_has_a_limit_of_its_own_beside_that_of_messages(strict: Server) -> None:
    caller = A2A(strict, tenant=new_tenant(strict, plan="enterprise")["slug"])
    call = {**CALL, "params": tool("audit_list")}

    answers = [caller.post(call).status_code for _ in range(3)]

    assert answers == [200, 200, 429]
    assert state(caller.send(tool("identity_show"))) == "COMPLETED"


@pytest.mark.req("RAD-H3-2")
def test_a_tenant_has_a_hundred_messages_a_minute_unless_configured_otherwise() -> None:
    assert load_settings({}).limits.a2a_tenant_per_min == 100


def test_looking_is_not_counted_as_work(strict: Server) -> None:
    caller = A2A(strict, tenant=new_tenant(strict)["slug"])
    task = caller.send(text("hello"))

    for _ in range(20):
        caller.get(task["id"])

    assert state(caller.send(text("hello"))) == "COMPLETED"


@pytest.mark.req("RAD-H3-3")
@in_one_minute
def test_refusals_are_counted_by_tenant_and_skill(strict: Server) -> None:
    tenants = [new_tenant(strict, plan="standard") for _ in range(2)]
    callers = [A2A(strict, tenant=tenant["slug"]) for tenant in tenants]
    for caller in callers:
        while caller.post(CALL).status_code == 200:
            pass

    callers[0].http.post("/a2a/rest/message:send", json=tool("identity_show"))
    callers[0].http.post("/a2a/rest/message:send", json=tool("audit_list"))

    found = metrics(strict)
    for tenant, skill, times in ((0, "identity", 1), (0, "audit", 1), (0, "message", 1), (1, "message", 1)):
        labels = f'limit="a2a-tenant",skill_name="{skill}",tenant_id="{tenants[tenant]["id"]}"'
        assert found[f"dragoman_rate_limited_total{{{labels}}}"] == times
