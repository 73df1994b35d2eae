from typing import Any

import pytest

from dragoman.addresses import bindings
from tests.doors.a2a.calling import A2A, text
from tests.doors.a2a.schema import MISSING, check, found
from tests.doors.a2a.schema_of_types import check_by_types
from tests.harness import Server, wait_for

PATH = "/.well-known/agent-card.json"


def _card(served: Server, **headers: str) -> dict[str, Any]:
    with served.client() as anyone:
        response = anyone.get(PATH, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    check("AgentCard", response.json())
    return response.json()


def _tools(card: dict[str, Any]) -> dict[str, Any]:
    [extension] = [one for one in card["capabilities"]["extensions"] if one["uri"] == "urn:dragoman:a2a:tools:1"]
    return {tool["name"]: tool for tool in extension["params"]["tools"]}


@pytest.mark.req("A2A-CARD-1", "RAD-H1-2")
def test_the_card_is_open_and_written_from_what_is_registered(served: Server) -> None:
    card = _card(served)

    tools = _tools(card)
    operations = [binding.operation for binding in bindings()]
    for operation in operations:
        assert tools[operation.tool]["inputSchema"] == operation.input.model_json_schema()
    assert {skill["id"] for skill in card["skills"]} == {one.skill for one in operations} | {"conformance"}
    assert (card["name"], card["version"]) == ("Conformance", "1.0.0")
    assert [(one["protocolBinding"], one["protocolVersion"]) for one in card["supportedInterfaces"]] == [
        ("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("GRPC", "1.0"), ("JSONRPC", "0.3"),
    ]  # fmt: skip


def test_the_card_without_an_agent_has_the_operations_alone(server: Server) -> None:
    card = _card(server)

    assert card["name"] == "Dragoman"
    assert "conformance" not in {skill["id"] for skill in card["skills"]}


def test_the_card_says_truly_what_works(served: Server) -> None:
    card = _card(served)

    capabilities = {name: on for name, on in card["capabilities"].items() if name != "extensions"}
    assert capabilities == {"streaming": True, "pushNotifications": True, "extendedAgentCard": True}
    assert set(card["securitySchemes"]) == {"bearer", "apiKey"}


def test_the_addresses_are_those_under_which_the_server_was_asked(served: Server) -> None:
    own, named = _card(served), _card(served, host="agents.example:8443")
    odd = _card(served, host="evil.example/x?")

    [rpc, rest, grpc, older] = [one["url"] for one in own["supportedInterfaces"]]
    assert (rpc, rest, older) == (f"{served.url}/a2a", f"{served.url}/a2a/rest", rpc)
    assert named["supportedInterfaces"][0]["url"] == "http://agents.example:8443/a2a"
    assert named["supportedInterfaces"][2]["url"] == f"agents.example:{grpc.removeprefix('127.0.0.1:')}"
    assert "evil" not in str(odd)


def test_the_card_can_be_cached(served: Server) -> None:
    with served.client() as anyone:
        first = anyone.get(PATH)
        again = anyone.get(PATH, headers={"if-none-match": first.headers["etag"]})
        head = anyone.head(PATH)

    assert "max-age" in first.headers["cache-control"]
    assert first.headers["last-modified"].endswith("GMT")
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert (head.status_code, head.content) == (200, b"")


def test_the_extended_card_shows_what_the_caller_may_do(served: Server) -> None:
    shown = {role: A2A(served, role=role).call("GetExtendedAgentCard", {}) for role in ("viewer", "super_admin")}

    assert "tenant_create" in _tools(shown["super_admin"])
    assert "tenant_create" not in _tools(shown["viewer"])
    assert "identity_show" in _tools(shown["viewer"])


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1", "1.0.7"])
def test_our_version_is_taken_by_header_and_query(a2a: A2A, version: str) -> None:
    assert "task" in a2a.call("SendMessage", text("hello"), **{"A2A-Version": version})
    response = a2a.http.post(
        f"/a2a?A2A-Version={version}", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
    )
    assert "result" in response.json()


@pytest.mark.req("RAD-H1-2")
@pytest.mark.parametrize("version", ["1.7", "2.0", "99.0"])
def test_a_newer_version_is_refused_and_noted(a2a: A2A, served: Server, version: str) -> None:
    error = a2a.error("SendMessage", text("hello"), **{"A2A-Version": version})

    assert (error["code"], error["data"][0]["reason"]) == (-32009, "VERSION_NOT_SUPPORTED")
    wait_for(
        lambda: any(
            line["message"] == "a2a.newer_version" and line["severity"] == "WARNING" and line["asked"] == version
            for line in served.log_lines()
        ),
        "the warning",
    )


@pytest.mark.parametrize("version", ["0.1", "one", "1.x", "-1.0", "1.0; DROP"])
def test_a_version_that_is_not_served_is_refused(a2a: A2A, version: str) -> None:
    assert a2a.error("SendMessage", text("hello"), **{"A2A-Version": version})["code"] == -32009


def test_an_extension_of_ours_is_named_in_the_answer_and_no_other(a2a: A2A) -> None:
    asked = {"A2A-Extensions": "https://example.com/ext, urn:dragoman:a2a:tools:1"}
    response = a2a.post({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}, **asked)

    assert response.headers["a2a-extensions"] == "urn:dragoman:a2a:tools:1"


@pytest.mark.req("MKS-CARD-2")
@pytest.mark.parametrize("lacking", ["name", "supportedInterfaces", "skills", "capabilities"])
def test_the_card_is_as_the_protocols_definition_has_it(served: Server, lacking: str) -> None:
    """In every clone: by the types that the SDK has of the definition."""
    card = _card(served)

    check_by_types("AgentCard", card)
    for wrong in ({**card, "url": "gone since 1.0"}, {name: card[name] for name in card if name != lacking}):
        with pytest.raises(AssertionError):
            check_by_types("AgentCard", wrong)


@pytest.mark.req("MKS-CARD-2")
@pytest.mark.skipif(not found(), reason=MISSING)
def test_the_card_is_as_the_official_schema_has_it(served: Server) -> None:
    check("AgentCard", _card(served))
    with pytest.raises(AssertionError):
        check("AgentCard", _card(served) | {"url": "gone since 1.0"})
