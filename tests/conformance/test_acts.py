"""The official vectors, where they are found, over every binding. What is left out stands here with its reason."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conformance.acts import TRANSPORTS, Acts, read
from tests.conformance.bindings import BINDINGS
from tests.doors.a2a.schema import MISSING, VECTORS, check, found
from tests.harness import Server
from tests.receiver import Receiver

TESTS = list(read(VECTORS)) if found() else []
ANONYMOUS = {"SEC-AUTH-001", "SEC-AUTH-004", "SEC-EXTCARD-001", "SEC-EXTCARD-004"}
LEFT_OUT = {
    "CORE-HIST-005": "counts the user's messages alone; a history of ours holds the agent's too",
    "DM-FMT-003": "asks for no context in a message; the specification wants one that the server made to be told",
    "SEC-AUTH-006": "asks a card for an error; the card is public, and SEC-AUTH-004 shows the refusal",
    "SEC-EXTCARD-002": "everybody who is known may see a card, and on it what is theirs to use",
    "CORE-CTX-001": "for servers that choose contexts themselves; here a client may name a new one",
    "CARD-DISC-002": "asks for the binding REST; the specification calls it HTTP+JSON",
    "DM-ART-003": "asks for a part of version 0.3; in 1.0 a file is raw with filename and mediaType",
    "DM-ART-004": "asks for a part of version 0.3; in 1.0 a file is url with filename and mediaType",
    "CORE-ERR-007": "asks for an object where CORE-ERR-008 and the specification ask for an array",
    "REST-PD-001": "asks for problem details; the specification has google.rpc.Status",
}
CAPABILITIES = {"streaming": True, "pushNotifications": True, "extendedAgentCard": True, "authentication": True}


def _left_out(test: dict[str, Any]) -> str | None:
    if "client_response" in str(test["steps"]) or "client" in test.get("tags", []):
        return "about a client"
    for name, wanted in test.get("preconditions", {}).get("capabilities", {}).items():
        if CAPABILITIES.get(name) is not wanted:
            return f"for servers where {name} is {wanted}"
    return LEFT_OUT.get(test["id"])


RUNS = [
    (test, binding)
    for test in TESTS
    for binding in BINDINGS
    if TRANSPORTS[binding] in test.get("transport", TRANSPORTS.values())
]


@pytest.fixture
def webhook() -> Iterator[Receiver]:
    """What the vectors leave to their runner: somebody who listens."""
    with Receiver() as receiver:
        yield receiver


@pytest.mark.req("RAD-H1-1")
@pytest.mark.skipif(not found(), reason=MISSING)
@pytest.mark.parametrize(("test", "binding"), RUNS, ids=[f"{test['id']}-{binding}" for test, binding in RUNS])
def test_an_official_vector(
    served: Server, callers: dict[str, httpx.Client], webhook: Receiver, test: dict[str, Any], binding: str
) -> None:
    if (reason := _left_out(test)) is not None:
        pytest.skip(reason)
    given: dict[str, Any] = {"insufficientAuthToken": served.token(role="viewer"), "webhookUrl": webhook.url}
    if "otherUserTaskId" in str(test):
        message = {"role": "ROLE_USER", "messageId": "a", "parts": [{"text": "tck-complete-task"}]}
        with BINDINGS[binding].ask(callers["rival"], "SendMessage", {"message": message}, {}) as answer:
            given["otherUserTaskId"] = answer.result["task"]["id"]

    assert Acts(callers["nobody" if test["id"] in ANONYMOUS else "owner"], binding, given).run(test) == []
    if test["id"].startswith("PUSH-DELIV") or test["id"] == "SEC-PUSH-001":
        notification = webhook.next()
        check("StreamResponse", notification.json)
        wanted = "Bearer test-token" if "test-token" in str(test) else None
        assert notification.headers.get("authorization") == wanted


@pytest.mark.skipif(not found(), reason=MISSING)
def test_every_official_vector_runs_on_a_binding() -> None:
    assert {test["id"] for test in TESTS} == {test["id"] for test, _ in RUNS}
