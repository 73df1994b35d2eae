"""Who may make, see and end a grant, on every door."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.backstage import add_tenant
from tests.doors.a2a.calling import A2A
from tests.doors.a2a.tool_calls import by_message
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import data, problem
from tests.harness import Server
from tests.services.approvals.asking import Office
from tests.services.audit.ledger import Ledger

Json = dict[str, Any]


@pytest.fixture
def office(server: Server) -> Iterator[Office]:
    """A tenant of the test's own."""
    opened = Office(server, add_tenant(server))
    yield opened
    opened.close()
    while A2A.opened:
        A2A.opened.pop().close()
    while Mcp.opened:
        Mcp.opened.pop().close()


def grant(who: httpx.Client, agent: str = "bot", **given: Any) -> Json:
    """A grant of theirs."""
    return data(who.post("/api/grants", json={"agent": agent, **given}), 201)


def listed(who: httpx.Client, **wanted: Any) -> list[str]:
    return [one["grant_id"] for one in data(who.get("/api/grants", params=wanted))]


def test_a_person_lets_an_agent_act_for_them(office: Office) -> None:
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()

    made = grant(office.person("ann"), actions=["signature.*", "document.draft"], expires_at=until, reason="my drafts")

    assert made.pop("grant_id")
    assert datetime.fromisoformat(made.pop("expires_at")) == datetime.fromisoformat(until)
    assert made.pop("created_at")
    assert made == {
        "state": "active", "agent": "bot", "on_behalf_of": "ann", "actions": ["document.draft", "signature.*"],
        "reason": "my drafts", "created_by": "ann", "ended_by": None, "ended_at": None, "end_reason": None,
    }  # fmt: skip


def test_only_an_admin_grants_for_another_and_no_program_grants_at_all(office: Office) -> None:
    for_bob = {"agent": "bot", "on_behalf_of": "bob"}

    other = problem(office.person("ann").post("/api/grants", json=for_bob), 403, "UNAUTHORIZED")
    program = problem(office.program("robot", "org_admin").post("/api/grants", json=for_bob), 403, "UNAUTHORIZED")
    agent = office.person("bot", "agent").post("/api/grants", json={"agent": "other"})
    by_admin = grant(office.person("root", "org_admin"), on_behalf_of="bob")

    assert (other["details"]["reason"], program["details"]["reason"]) == ("NOT_YOURS", "PEOPLE_ONLY")
    problem(agent, 403, "UNAUTHORIZED")
    assert (by_admin["on_behalf_of"], by_admin["created_by"]) == ("bob", "root")


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("agent", {"agent": "ann"}),
        ("expires_at", {"agent": "bot", "expires_at": "2020-01-01T00:00:00Z"}),
        ("actions.0", {"agent": "bot", "actions": ["signature*"]}),
        ("actions.0", {"agent": "bot", "actions": ["*"]}),
    ],
)
def test_a_grant_that_cannot_be_meant_is_refused(office: Office, field: str, given: Json) -> None:
    refused = problem(office.person("ann").post("/api/grants", json=given), 400, "INVALID_PARAMS")

    assert [error["field"] for error in refused["errors"]] == [field]


def test_a_grant_is_seen_by_who_gave_it_who_has_it_and_admins_and_by_nobody_else(office: Office) -> None:
    made = grant(office.person("ann"))["grant_id"]
    others = grant(office.person("bob"))["grant_id"]
    path = f"/api/grants/{made}"

    assert listed(office.person("ann")) == [made]
    assert listed(office.person("bot", "agent")) == listed(office.person("root", "org_admin")) == [others, made]
    assert listed(office.person("root", "org_admin"), on_behalf_of="ann", agent="bot") == [made]
    problem(office.person("bob").get(path), 404, "NOT_FOUND")
    problem(office.person("bob").post(f"{path}/end", json={}), 404, "NOT_FOUND")
    rival = Office(office.server, add_tenant(office.server))
    problem(rival.person("ann", "org_admin").get(path), 404, "NOT_FOUND")
    rival.close()


def test_a_grant_is_ended_once_by_whom_it_is_for(office: Office) -> None:
    ann = office.person("ann")
    made = grant(ann)
    path = f"/api/grants/{made['grant_id']}"

    ended = data(ann.post(f"{path}/end", json={"reason": "done"}))
    again = problem(ann.post(f"{path}/end", json={}), 409, "CONFLICT")

    assert (ended["state"], ended["ended_by"], ended["end_reason"]) == ("ended", "ann", "done")
    assert again["details"]["reason"] == "GRANT_ENDED"
    assert listed(ann) == []
    assert listed(ann, include_ended=True) == [made["grant_id"]]


def test_the_grants_of_a_person_who_is_shut_out_end_with_them(office: Office) -> None:
    root = office.person("root", "org_admin")
    user = {"email": "ann@x.test", "name": "Ann", "role": "operator", "subject": "ann"}
    invited = data(root.post("/api/users", json=user), 201)
    given, received = grant(office.person("ann")), grant(office.person("bob"), "ann")

    data(root.post(f"/api/users/{invited['id']}/disable", json={}))

    shown = [data(root.get(f"/api/grants/{one['grant_id']}")) for one in (given, received)]
    assert [(one["state"], one["ended_by"], one["end_reason"]) for one in shown] == [("ended", "root", "disabled")] * 2


def test_every_door_makes_lists_shows_and_ends_grants(office: Office) -> None:
    who: Json = {"role": "operator", "tenant": office.tenant, "user": "ann"}
    by_a2a, by_mcp = by_message(A2A(office.server, **who)), Mcp(office.server, **who)
    environment = {"DRAGOMAN_TOKEN": office.server.token(**who)}

    def shell(*words: str) -> Json:
        return json.loads(office.server.cli("grant", *words, "--json", environment=environment).stdout)

    def tool(name: str, **arguments: Any) -> Json:
        return by_mcp.call(name, arguments)["structuredContent"]

    made = by_a2a("grant_create", agent="bot", actions=["document.draft"])
    from_mcp = tool("grant_create", agent="bot", actions=["signature.*"])
    from_shell = shell("create", "--agent", "bot", "--actions", "checklist.create")
    assert [one["grant_id"] for one in tool("grant_list")["items"]] == [
        one["grant_id"] for one in (from_shell, from_mcp, made)
    ]
    assert tool("grant_show", grant_id=made["grant_id"]) == made
    assert shell("show", made["grant_id"]) == made
    assert by_a2a("grant_end", grant_id=from_mcp["grant_id"])["state"] == "ended"
    assert tool("grant_end", grant_id=from_shell["grant_id"])["state"] == "ended"
    assert shell("end", made["grant_id"])["state"] == "ended"
    assert by_a2a("grant_list")["items"] == shell("list")["items"] == []
    told = office.server.cli("grant", "list", "--include-ended", environment=environment).stdout
    assert made["grant_id"] in told


def test_the_audit_trail_holds_grants_and_names_one_that_was_edited(server: Server) -> None:
    ledger = Ledger(server)
    with server.client(server.token(tenant=ledger.slug, user="ann", role="operator")) as ann:
        made = grant(ann)["grant_id"]
        data(ann.post(f"/api/grants/{made}/end", json={"reason": "done"}))

    honest = ledger.verify()
    ledger.sql("UPDATE grants SET on_behalf_of = 'bob' WHERE tenant_id = $1")
    edited = ledger.verify()
    ledger.sql("UPDATE grants SET on_behalf_of = 'ann', ended_by = NULL WHERE tenant_id = $1")
    revived = ledger.verify()

    assert honest["ok"], honest
    assert [(one["table"], one["id"], one["column"]) for one in edited["disagreements"]] == [
        ("grants", made, "on_behalf_of")
    ]
    assert [one["column"] for one in revived["disagreements"]] == ["ended_by"]
