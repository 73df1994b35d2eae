"""Sessions of the era with a handshake: carried by the client, good for its caller, until their time is up."""

from uuid import uuid4

import pytest

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.doors.mcp.ticket import Tickets
from dragoman.errors import NotFound
from tests.doors.mcp.calling import OLD, OLDER, Mcp, Session
from tests.harness import Server

ADA = Caller(TenantId(uuid4()), "acme", "ada", PrincipalType.USER, frozenset({Role.VIEWER}), "c", 0.0)
WEEK_S = 7 * 86_400


def test_any_process_reads_what_another_has_made_until_its_time_is_up() -> None:
    declared = {"elicitation": {"form": {}}, "roots": {"listChanged": True}}
    made = Tickets(b"key", clock=lambda: 0.0).issue(ADA, {"protocolVersion": OLD, "capabilities": declared})

    read = Tickets(b"key", clock=lambda: WEEK_S - 1.0).get(ADA, made.text)

    assert read == made
    assert (made.version, made.able) == (OLD, {"form", "folders"})
    with pytest.raises(NotFound):
        Tickets(b"key", clock=lambda: float(WEEK_S)).get(ADA, made.text)


@pytest.mark.parametrize(
    "params", [None, [], {}, {"protocolVersion": 5, "capabilities": [1]}, {"capabilities": {"elicitation": 1}}]
)
def test_nonsense_in_an_introduction_is_no_more_than_a_session_that_can_do_little(params: object) -> None:
    made = Tickets(b"key").issue(ADA, params)

    assert made.version == OLDER
    assert made.able <= {"form"}


def test_a_session_that_is_unknown_another_callers_or_over_is_not_found(spoken: Server, mcp: Mcp, rival: Mcp) -> None:
    session = Session(mcp)
    colleague = Mcp(spoken, user="bob", role="super_admin")
    number, rest = session.id.split(".", 1)
    foreign = [session.elsewhere(one) for one in (rival, colleague)]
    forged = [session.elsewhere(mcp) for _ in range(3)]
    another = f"{int(number, 16) ^ 1:032x}.{rest}"
    forged[0].id, forged[1].id, forged[2].id = "x", another, session.id.replace(".2025", ".esr.2025")

    refused = [one.post("tools/list") for one in (*foreign, *forged)]
    statuses = [one.end() for one in (*foreign, *forged)] + [one.listen().status for one in (*foreign, *forged)]

    assert {answer.status_code for answer in refused} == set(statuses) == {404}
    assert {answer.json()["error"]["data"]["code"] for answer in refused} == {"NOT_FOUND"}
    assert session.ask("ping") == {}
    assert session.end() == 204
    assert session.post("ping").status_code == session.end() == session.answer("x", {}) == 404


def test_who_sends_no_session_is_served_as_before(mcp: Mcp) -> None:
    introduced = Session(mcp).introduced["capabilities"]
    unheard = mcp.error("logging/setLevel", {"level": "info"}, era=OLDER)

    assert mcp.ask("ping", era=OLDER) == {}
    assert (unheard["code"], mcp.http.get("/mcp").status_code, mcp.http.delete("/mcp").status_code) == (
        -32601,
        405,
        405,
    )
    assert introduced["logging"] == {}
    assert introduced["resources"] == {"listChanged": True, "subscribe": True}
    assert introduced["tools"] == introduced["prompts"] == {"listChanged": True}
