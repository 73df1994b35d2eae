"""The official vectors, where they are found. What is left out stands here with its reason."""

from typing import Any

import pytest

pytest.importorskip("yaml", reason="the official vectors are YAML: pip install pyyaml")

from tests.conformance.acts import Acts, read
from tests.doors.a2a.calling import A2A
from tests.doors.a2a.schema import MISSING, VECTORS, found
from tests.harness import Server

TESTS = list(read(VECTORS)) if found() else []
LEFT_OUT = {
    "CORE-HIST-005": "counts the user's messages alone; a history of ours holds the agent's too",
    "CORE-CTX-001": "for servers that choose contexts themselves; here a client may name a new one",
    "CORE-CAP-001": "the specification has an error of its own for this, PushNotificationNotSupported",
    "PUSH-CFG-004": "the specification has an error of its own for this, PushNotificationNotSupported",
    "CARD-DISC-002": "asks for the binding REST; the specification calls it HTTP+JSON",
    "DM-ART-003": "asks for a part of version 0.3; in 1.0 a file is raw with filename and mediaType",
    "DM-ART-004": "asks for a part of version 0.3; in 1.0 a file is url with filename and mediaType",
    "CORE-ERR-007": "asks for an object where CORE-ERR-008 and the specification ask for an array",
}


def _left_out(test: dict[str, Any]) -> str | None:
    if "client_response" in str(test["steps"]):
        return "about a client"
    if "jsonrpc" not in test.get("transport", ["jsonrpc"]):
        return "about another binding"
    if "runner-special" in test.get("tags", []) and any(word in str(test) for word in ("uth", "ebhook")):
        return "needs credentials or a webhook of the runner's own; tests/doors/a2a show it"
    for name, wanted in test.get("preconditions", {}).get("capabilities", {}).items():
        if {"streaming": True, "pushNotifications": False, "extendedAgentCard": True}.get(name) is not wanted:
            return f"for servers where {name} is {wanted}"
    return LEFT_OUT.get(test["id"])


@pytest.mark.req("RAD-H1-1")
@pytest.mark.skipif(not found(), reason=MISSING)
@pytest.mark.parametrize("test", TESTS, ids=[test["id"] for test in TESTS])
def test_an_official_vector(served: Server, test: dict[str, Any]) -> None:
    if (reason := _left_out(test)) is not None:
        pytest.skip(reason)

    assert Acts(A2A(served).http).run(test) == []
