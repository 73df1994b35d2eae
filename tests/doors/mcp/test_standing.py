"""The stream of a session: what changes, in whichever process, and what was missed between two streams."""

from typing import Any

import pytest

from tests.doors.mcp.calling import MODERN, OLDER, Line, Mcp, Session, propose
from tests.harness import Server

UPDATED, LISTED = "notifications/resources/updated", "notifications/resources/list_changed"


def accept(mcp: Mcp, item: str) -> None:
    mcp.call("knowledge_accept", {"id": item, "reason": "agreed"})


def test_a_session_hears_of_what_it_follows_and_of_nothing_else(here: Mcp, there: Mcp, rival: Mcp) -> None:
    """It says so at one process, listens at another, and things change at either."""
    dropped, first, second = (propose(here) for _ in range(3))
    session = Session(here)
    uris = {item: f"dragoman://knowledge/{item}" for item in (dropped, first, second)}
    with session.elsewhere(there).listen().begun() as line:
        session.ask("resources/subscribe", {"uri": uris[dropped]})
        session.ask("resources/unsubscribe", {"uri": uris[dropped]})
        for item in (first, second):
            session.ask("resources/subscribe", {"uri": uris[item]})
        propose(rival)
        accept(here, first)
        # Whoever tells of what was followed last knows what was dropped before it.
        heard = [hear_updated(line)]
        accept(here, dropped)
        accept(here, second)
        heard.append(hear_updated(line))
        ended = session.end()
        after = line.rest()

    assert heard == [{"uri": uris[first]}, {"uri": uris[second]}]
    assert ended == 204
    assert not any(uris[dropped] in said for said in after)


def hear_updated(line: Line) -> dict[str, Any]:
    """What the next change of a resource is about."""
    heard = line.hear()
    while heard["method"] == LISTED:
        heard = line.hear()
    assert heard["method"] == UPDATED
    return heard["params"]


def test_what_changed_between_two_streams_is_told_by_the_second(here: Mcp, there: Mcp) -> None:
    item = propose(here)
    session = Session(here)
    uri = f"dragoman://knowledge/{item}"
    session.ask("resources/subscribe", {"uri": uri})
    with session.listen().begun() as line:
        propose(here)
        line.next(LISTED)

    propose(there)
    accept(there, item)
    with session.elsewhere(there).listen() as line:
        heard = {line.hear()["method"]}
        while not heard >= {LISTED, UPDATED}:  # tools are others, too: another agent is served there
            heard.add(line.hear()["method"])

    assert heard <= {LISTED, UPDATED, "notifications/tools/list_changed", "notifications/prompts/list_changed"}


def test_a_list_that_changes_with_a_condition_is_told(spoken: Server, everything: Server) -> None:
    caller = Mcp(everything, keys_of=spoken, role="super_admin")
    session = Session(caller)

    with session.listen().begun() as line:
        session.ask("tools/call", {"name": "test_trigger_prompt_change", "arguments": {}})
        heard = line.hear()
        session.ask("tools/call", {"name": "test_trigger_prompt_change", "arguments": {}})

    assert heard["method"] == "notifications/prompts/list_changed"


def test_what_may_not_be_read_cannot_be_followed(spoken: Server, tenant: str, here: Mcp) -> None:
    narrow = Session(Mcp(spoken, tenant=tenant, scopes=["read:identity"]))

    forbidden = narrow.post("resources/subscribe", {"uri": "dragoman://tasks"})
    endless = Session(here).post("resources/subscribe", {"uri": f"dragoman://task/{'x' * 3000}"})

    assert "UNAUTHORIZED" in forbidden.text
    assert "INVALID_PARAMS" in endless.text
    assert narrow.ask("resources/subscribe", {"uri": "dragoman://identity"}) == {}


@pytest.mark.parametrize(
    ("level", "lines"),
    [(None, []), ("debug", ["Looking", "Found nothing"]), ("error", []), ("notice", ["Found nothing"])],
)
@pytest.mark.parametrize("era", [OLDER, MODERN])
def test_a_client_sees_the_lines_of_a_log_from_the_level_that_it_has_asked_for(
    spoken: Server, everything: Server, era: str, level: str | None, lines: list[str]
) -> None:
    caller = Mcp(everything, keys_of=spoken, role="super_admin")
    if era == MODERN:
        meta = {"io.modelcontextprotocol/logLevel": level} if level else {}
        answer = caller.post("tools/call", {"name": "test_logging_tool", "arguments": {}, "_meta": meta})
    else:
        session = Session(caller)
        if level:
            assert session.ask("logging/setLevel", {"level": level}) == {}
        answer = session.post("tools/call", {"name": "test_logging_tool", "arguments": {}})

    said = [line for line in answer.text.splitlines() if "notifications/message" in line]
    assert [line.partition('"data":"')[2].partition('"')[0] for line in said] == lines
    assert "Whoever asked" in answer.text


def test_a_level_that_there_is_not_is_refused(mcp: Mcp) -> None:
    answer = Session(mcp).post("logging/setLevel", {"level": "loud"})

    assert "-32602" in answer.text
