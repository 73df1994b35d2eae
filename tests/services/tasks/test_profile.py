"""The contracts profile: found by anybody, the same on every door, and true."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.doors.a2a.calling import A2A, tool
from tests.doors.mcp.calling import Mcp, read
from tests.doors.rest.calling import data, problem
from tests.harness import Server
from tests.patience import PATIENCE_S
from tests.services.tasks.envelopes import envelope

PATH, EXTENSION = "/.well-known/contracts-profile.json", "urn:dragoman:contracts-profile:1"
UNSUPPORTED = "PROFILE_VERSION_UNSUPPORTED"
CORE = {
    *("document.draft", "document.redline", "policy.check"),
    *("approval.request", "approval.decide", "signature.prepare", "signature.status"),
}
# Of webhooks and of plugins: the profile is that of contracts.
OTHERS = ("webhook.", "costs.", "remediation.")
SENSITIVE = {"signature.send", "signature.void", "document.mark_executed"}
DOCUMENT = {"type": "document", "id": "nda-1"}


@pytest.fixture
def anybody(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    for client in (*A2A.opened, *Mcp.opened):
        client.close()


def output_of(task: dict[str, Any]) -> Any:
    return task["artifacts"][0]["parts"][0]["data"]


def error_of(task: dict[str, Any]) -> Any:
    return task["status"]["message"]["parts"][-1]["data"]["error"]


@pytest.mark.req("ORC-PRO-1")
def test_a_client_discovers_what_can_be_delegated_and_every_door_shows_the_same(
    server: Server, anybody: httpx.Client
) -> None:
    told = anybody.get(PATH)

    by_a2a = output_of(A2A(server).send(tool("profile_show")))
    by_mcp = Mcp(server).ask("tools/call", {"name": "profile_show", "arguments": {}})["structuredContent"]
    by_shell = json.loads(server.cli("profile", "show", "--json").stdout)

    profile = told.json()
    assert told.headers["content-type"] == "application/json"
    assert (profile["profile"], profile["profile_version"]) == (EXTENSION, "1.0")
    actions = {one["action"]: one for one in profile["actions"]}
    assert {name for name, one in actions.items() if one["required"]} >= CORE
    assert {name for name, one in actions.items() if one["sensitive"]} >= SENSITIVE
    assert actions["checklist.patch"]["required"] is False
    assert actions["document.draft"]["input_schema"]["properties"].keys() >= {"template", "fields"}
    modes = {mode["mode"]: mode["actions"] for mode in profile["governance_modes"]}
    assert "document.mark_executed" in modes["approved"]
    assert "document.draft" in modes["checked"]
    assert profile["evidence"]["kinds"].keys() == {"document", "signature", "approval", "audit", "citation"}
    assert profile["envelope_schema"]["required"] >= ["envelope_version", "actor", "action"]
    assert {one["protocol"] for one in profile["endpoints"]} == {"a2a", "mcp", "rest"}
    assert all(server.url in one["url"] or one["binding"] == "GRPC" for one in profile["endpoints"])
    for other in (by_a2a, by_mcp, by_shell):
        assert {name: other[name] for name in profile if name != "endpoints"} == {
            name: value for name, value in profile.items() if name != "endpoints"
        }


def test_the_actions_of_the_profile_are_those_that_somebody_performs(server: Server, anybody: httpx.Client) -> None:
    with server.admin() as admin:
        capable = data(admin.get("/api/capabilities"))

    listed = anybody.get(PATH).json()["actions"]

    contracts = [one for one in capable if not one["action"].startswith(OTHERS)]
    assert {one["action"]: one["required"] for one in listed} == {one["action"]: one["required"] for one in contracts}


@pytest.mark.req("ORC-PRO-2")
def test_another_version_is_refused_on_every_door_with_those_that_are_spoken(
    server: Server, anybody: httpx.Client
) -> None:
    refused = problem(anybody.get(PATH, params={"version": "9.9"}), 400, UNSUPPORTED)
    by_a2a = error_of(A2A(server).send(tool("profile_show", {"version": "9.9"})))
    by_mcp = Mcp(server).ask("tools/call", {"name": "profile_show", "arguments": {"version": "9.9"}})
    by_shell = server.cli("profile", "show", "--version", "9.9", "--json")

    assert by_mcp["isError"] is True
    told = [refused, by_a2a, by_mcp["structuredContent"]["error"], json.loads(by_shell.stdout)["error"]]
    assert [one["code"] for one in told] == [UNSUPPORTED] * 4
    assert [one["details"]["supported"] for one in told] == [["1.0"]] * 4
    assert by_shell.returncode == 1


@pytest.mark.parametrize("version", ["1.0", "1", ""])
def test_a_version_that_is_spoken_is_answered(anybody: httpx.Client, version: str) -> None:
    assert anybody.get(PATH, params={"version": version}).json()["profile_version"] == "1.0"


@pytest.mark.parametrize("version", ["2", "0.9", "1.0.0", "one", "1.0 OR 1=1"])
def test_a_version_that_nobody_speaks_is_refused(anybody: httpx.Client, version: str) -> None:
    problem(anybody.get(PATH, params={"version": version}), 400, UNSUPPORTED)


def test_a_client_states_its_version_by_a_header_too(server: Server, anybody: httpx.Client) -> None:
    stated = {"contracts-profile-version": "3"}

    problem(anybody.get(PATH, headers=stated), 400, UNSUPPORTED)
    with server.admin() as admin:
        problem(admin.get("/api/profile", headers=stated), 400, UNSUPPORTED)
    assert error_of(A2A(server).send(tool("profile_show"), **stated))["code"] == UNSUPPORTED


def test_a_profile_that_the_client_has_is_not_sent_again(anybody: httpx.Client) -> None:
    first = anybody.get(PATH)

    again = anybody.get(PATH, headers={"if-none-match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]


def test_the_card_links_the_profile_and_the_link_leads_there(anybody: httpx.Client) -> None:
    card = anybody.get("/.well-known/agent-card.json").json()

    extension = next(one for one in card["capabilities"]["extensions"] if one["uri"] == EXTENSION)

    assert extension["params"]["versions"] == ["1.0"]
    assert httpx.get(extension["params"]["profile"], timeout=PATIENCE_S).json()["profile"] == EXTENSION


def test_the_extension_is_named_in_the_answer_and_another_version_of_it_is_refused(server: Server) -> None:
    caller = A2A(server)
    call = {"jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": tool("profile_show")}

    taken = caller.post(call, **{"A2A-Extensions": f"urn:other, {EXTENSION}"})
    refused = caller.error(
        "SendMessage", tool("profile_show"), **{"A2A-Extensions": "urn:dragoman:contracts-profile:2"}
    )

    assert taken.headers["a2a-extensions"] == EXTENSION
    assert refused["data"][0]["reason"] == UNSUPPORTED
    assert refused["data"][0]["metadata"]["supported"] == "1.0"


def test_mcp_shows_the_profile_as_a_resource_and_speaks_of_it(server: Server, anybody: httpx.Client) -> None:
    caller, uri = Mcp(server), "dragoman://contracts-profile"

    listed = caller.ask("resources/list")["resources"]
    told = caller.ask("resources/read", {"uri": uri})["contents"][0]["text"]
    discovered = caller.ask("server/discover")

    assert uri in [one["uri"] for one in listed]
    assert json.loads(told)["actions"] == anybody.get(PATH).json()["actions"]
    assert uri in discovered["instructions"]
    assert read(caller.post("resources/read", {"uri": f"{uri}/1"}))["error"]["code"] == -32602


def test_a_hand_over_under_another_version_is_refused_before_anything_is_queued(server: Server) -> None:
    stated, fields = {"contracts-profile-version": "2.0"}, {"party_a": "A", "party_b": "B"}
    given = envelope("document.draft", {"template": "mutual-nda", "fields": fields}, resource=DOCUMENT)
    with server.admin() as admin:
        before = admin.get("/api/tasks").json()["data"]

        refused = admin.post("/api/tasks", json=given, headers=stated)
        by_a2a = A2A(server).send(tool("task_submit", {"envelope": given}), **stated)

        problem(refused, 400, UNSUPPORTED)
        assert error_of(by_a2a)["code"] == UNSUPPORTED
        assert [one for one in admin.get("/api/tasks").json()["data"] if one["action"]] == [
            one for one in before if one["action"]
        ]
