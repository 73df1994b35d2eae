from typing import Any

import pytest

from dragoman.addresses import bindings
from tests.doors.a2a.older_schema import MISSING, check, found
from tests.doors.rest.calling import problem
from tests.harness import Server

PATH = "/.well-known/agent.json"


def _card(served: Server, **headers: str) -> dict[str, Any]:
    with served.client() as anyone:
        response = anyone.get(PATH, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    return response.json()


@pytest.mark.req("MKS-CARD-1")
def test_the_old_card_is_open_and_says_who_it_is_and_how_to_get_in(served: Server) -> None:
    card = _card(served)

    assert (card["name"], card["version"]) == ("Conformance", "1.0.0")
    assert card["description"]
    assert card["capabilities"]["streaming"] is True
    assert card["authentication"] == {"schemes": ["Bearer", "ApiKey"]}
    assert card["documentationUrl"] == f"{served.url}/docs"
    assert {skill["id"] for skill in card["skills"]} == {one.operation.skill for one in bindings()} | {"conformance"}
    assert all(skill["name"] and skill["description"] and skill["tags"] for skill in card["skills"])


@pytest.mark.req("A2A-CARD-1")
def test_the_old_card_has_every_tool_with_its_skill(served: Server) -> None:
    shown = {(skill["id"], tool["name"]): tool for skill in _card(served)["skills"] for tool in skill["tools"]}

    for operation in (binding.operation for binding in bindings()):
        tool = shown[operation.skill, operation.tool]
        assert tool["inputSchema"] == operation.input.model_json_schema()
        assert tool["description"]


@pytest.mark.req("A2A-CARD-2")
def test_the_old_card_says_truly_what_works(served: Server) -> None:
    assert _card(served)["capabilities"] == {
        "streaming": True,
        "pushNotifications": False,
        "stateTransitionHistory": True,
    }


def test_the_url_of_the_old_card_answers_calls_of_its_version(served: Server) -> None:
    message = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tasks/send", "params": {"id": "from-the-card", "message": message}}

    with served.client(served.token()) as client:
        answer = client.post(_card(served)["url"], json=call).json()

    assert (answer["id"], answer["result"]["status"]["state"]) == (7, "completed")


def test_the_old_card_follows_the_name_under_which_it_was_asked_and_can_be_cached(served: Server) -> None:
    with served.client() as anyone:
        first = anyone.get(PATH, headers={"host": "agents.example:8443"})
        again = anyone.get(PATH, headers={"host": "agents.example:8443", "if-none-match": first.headers["etag"]})
        refused = anyone.post(PATH, json={})

    assert first.json()["url"].startswith("http://agents.example:8443/")
    assert (again.status_code, again.content) == (304, b"")
    problem(refused, 405, "METHOD_NOT_ALLOWED")


@pytest.mark.req("MKS-CARD-2")
@pytest.mark.skipif(not found("0.1"), reason=MISSING)
def test_the_old_card_is_as_the_official_schema_has_it(served: Server) -> None:
    card = _card(served)

    check("0.1", "AgentCard", card)
    with pytest.raises(AssertionError):
        check("0.1", "AgentCard", {name: value for name, value in card.items() if name != "url"})
