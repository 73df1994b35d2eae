"""What clients hear of changes, in whichever process they were made, and what they do not hear."""

from typing import Any

import pytest

from tests.doors.mcp.calling import MODERN, OLDER, TASKS, Ear, Mcp, Session, official, propose
from tests.doors.mcp.conftest import TREE
from tests.harness import Server
from tests.tenants import beside, invite

pytestmark = pytest.mark.anyio
FOLLOWS = {"extensions": {TASKS: {}}}
MISSING = "01890a5d-ac96-774b-bcce-b302099a8057"


def begun(mcp: Mcp, said: str) -> str:
    return mcp.call("conformance", {"text": said}, capabilities=FOLLOWS)["taskId"]


def test_only_what_a_client_may_follow_is_acknowledged(spoken: Server, tenant: str, here: Mcp, mcp: Mcp) -> None:
    narrow = Mcp(spoken, tenant=tenant, scopes=["read:identity"])
    own, foreign = begun(here, "tck-input-required"), begun(mcp, "tck-input-required")
    named = [own, foreign, MISSING, own]

    with Ear(here, capabilities=FOLLOWS, toolsListChanged=True, promptsListChanged=False, taskIds=named) as ear:
        declared = ear.acknowledged
    with Ear(here, taskIds=named, resourceSubscriptions=["dragoman://identity"]) as ear:
        undeclared = ear.acknowledged
    with Ear(narrow, resourceSubscriptions=["dragoman://identity", "dragoman://tasks"]) as ear:
        forbidden = ear.acknowledged

    assert declared == {"toolsListChanged": True, "taskIds": [own]}
    assert undeclared == forbidden == {"resourceSubscriptions": ["dragoman://identity"]}


def test_a_task_is_told_of_until_it_ends_wherever_it_runs(here: Mcp, there: Mcp) -> None:
    """The stream is at one process, and the task at another; when it has ended there is nothing left to tell."""
    task_id = begun(here, "tck-input-required")
    uri = f"dragoman://task/{task_id}"
    with (
        Ear(there, capabilities=FOLLOWS, taskIds=[task_id]) as ear,
        Ear(there, resourceSubscriptions=[uri]) as other,
    ):
        asked = ear.next("notifications/tasks")
        while asked["status"] == "working":
            asked = ear.next("notifications/tasks")
        answer = {next(iter(asked["inputRequests"])): {"action": "accept", "content": {"answer": "done"}}}
        here.ask("tasks/update", {"taskId": task_id, "inputResponses": answer}, capabilities=FOLLOWS)

        heard = ear.next("notifications/tasks")
        while heard["status"] == "working":
            heard = ear.next("notifications/tasks")
        updated = other.next("notifications/resources/updated")
        ear.end()

    assert (asked["taskId"], asked["status"]) == (task_id, "input_required")
    assert (heard["status"], heard["result"]["isError"]) == ("completed", False)
    assert updated["uri"] == uri


def test_knowledge_that_changes_is_told_to_its_tenant_alone(here: Mcp, there: Mcp, rival: Mcp) -> None:
    item = propose(here, "Use one database")
    uri = f"dragoman://knowledge/{item}"
    with (
        Ear(there, resourcesListChanged=True) as own,
        Ear(there, resourceSubscriptions=[uri]) as watched,
        Ear(rival, resourcesListChanged=True, resourceSubscriptions=[uri]) as foreign,
    ):
        propose(here)
        own.next("notifications/resources/list_changed")
        here.call("knowledge_accept", {"id": item, "reason": "agreed"})
        updated = watched.next("notifications/resources/updated")
        theirs = propose(rival)
        # Had anything of the others come to this stream, it would have come before this.
        foreign.next("notifications/resources/list_changed")

    assert updated["uri"] == uri
    listed = [one["uri"] for one in rival.ask("resources/list")["resources"]]
    assert f"dragoman://knowledge/{theirs}" in listed
    assert uri not in listed


def test_another_role_is_told_as_other_lists_and_ends_the_stream(
    spoken: Server, everything: Server, tenant: str, here: Mcp
) -> None:
    """A credential says the role, so the one with the old role is refused; its client is told to look again."""
    user = invite(here.http, "vera", "viewer")
    vera = Mcp(everything, keys_of=spoken, role="viewer", user="vera", tenant=tenant)

    with (
        Ear(vera, toolsListChanged=True, resourcesListChanged=True) as ear,
        Session(vera).listen().begun() as line,
    ):
        here.call("user_update", {"user_id": user["id"], "role": "analyst"})
        ear.next("notifications/tools/list_changed")
        ear.next("notifications/resources/list_changed")
        ear.end()
        told = line.rest()

    assert len(told) == 3
    assert vera.post("tools/list").status_code == 401


async def test_the_official_client_hears_of_a_tool_that_came(spoken: Server, everything: Server) -> None:
    token = spoken.token(role="super_admin")
    async with (
        official(everything, mode="auto", token=token) as client,
        client.listen(tools_list_changed=True) as heard,
    ):
        await client.call_tool("test_trigger_tool_change", {})
        event: Any = await anext(aiter(heard))
        await client.call_tool("test_trigger_tool_change", {})

    assert type(event).__name__ == "ToolsListChanged"


def test_the_older_era_has_no_such_stream(here: Mcp) -> None:
    error = here.error("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, era=OLDER)
    capabilities = here.ask("server/discover", era=MODERN)["capabilities"]

    assert error["code"] == -32601
    assert capabilities["tools"]["listChanged"] is capabilities["resources"]["subscribe"] is True


def test_a_server_that_leaves_ends_its_streams_and_waits_in_good_order(spoken: Server) -> None:
    """Those of both eras, and a call that waits for a person, whose question stays open."""
    agent = {"DRAGOMAN_AGENT": "examples.everything.agent:agent", "PYTHONPATH": TREE}
    with Server(beside(spoken) | agent) as leaving:
        caller = Mcp(leaving, keys_of=spoken)
        session = Session(caller, capabilities={"elicitation": {}})
        with (
            Ear(caller, toolsListChanged=True) as ear,
            session.listen().begun() as line,
            session.call("test_input_required_result_elicitation") as call,
        ):
            call.next("elicitation/create")
            status = leaving.stop()
            ear.end()
            left, told = call.result(), line.rest()

    assert status == 0
    assert left["structuredContent"]["state"] == "input_required"
    assert told == []
