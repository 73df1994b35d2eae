"""What tasks ask, sent to clients of the era with a handshake while they wait, and answered at any process."""

import asyncio
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from tests.doors.mcp.calling import OLD, OLDER, TASKS, Ear, Mcp, Session, official, refused_answers
from tests.doors.rest.calling import new_tenant
from tests.harness import Server

pytestmark = pytest.mark.anyio
ASKED = {"elicitation": {}, "sampling": {}, "roots": {}}
ADA = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture
def here(spoken: Server, everything: Server) -> Mcp:
    """One who may do everything, at one process."""
    return Mcp(everything, keys_of=spoken, role="super_admin")


@pytest.fixture
def there(spoken: Server, several: Server) -> Mcp:
    """The same one, at another."""
    return Mcp(several, keys_of=spoken, role="super_admin")


async def fill_in(_: Any, asked: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=dict.fromkeys(asked.requested_schema["properties"], "Ada"))


async def think(_: Any, asked: Any) -> CreateMessageResult:
    said = TextContent(type="text", text=f"Thought of {asked.messages[0].content.text}")
    return CreateMessageResult(role="assistant", content=said, model="a model")


async def show(_: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root.model_validate({"uri": "file:///home/ada"})])


async def test_the_official_client_is_asked_by_whichever_of_two_processes(spoken: Server, several: Server) -> None:
    """Many calls at once, over many connections: most answers come to a process that does not wait for them."""
    token = spoken.token(role="super_admin")

    async def said(client: Client, tool: str, **arguments: str) -> str:
        return str((await client.call_tool(tool, arguments)).content)

    async with official(
        several, mode="legacy", token=token, elicitation_callback=fill_in, sampling_callback=think,
        list_roots_callback=show,
    ) as client:  # fmt: skip
        asked = [said(client, "test_elicitation", message=f"Who is {number}?") for number in range(5)]
        asked += [said(client, "test_sampling", prompt=f"number {number}") for number in range(5)]
        asked += [said(client, "test_input_required_result_multiple_inputs") for _ in range(3)]
        asked += [said(client, "test_input_required_result_multi_round")]
        answered = await asyncio.gather(*asked)

    assert all("'username': 'Ada'" in one for one in answered[:5])
    assert [f"Thought of number {number}" in one for number, one in enumerate(answered[5:10])] == [True] * 5
    assert all("Thought of" in one and "Ada" in one and "file:///home/ada" in one for one in answered[10:13])
    assert "'color': 'Ada'" in answered[13]


@pytest.mark.parametrize(
    ("era", "shown"), [(OLD, {"message", "requestedSchema"}), (OLDER, {"mode", "message", "requestedSchema"})]
)
def test_an_answer_that_comes_to_another_process_reaches_the_call(
    here: Mcp, there: Mcp, era: str, shown: set[str]
) -> None:
    session = Session(here, era=era, capabilities=ASKED)

    with session.call("test_input_required_result_elicitation") as call:
        asked = call.next("elicitation/create")
        taken = session.elsewhere(there).answer(asked["id"], ADA)
        result = call.result()

    assert (set(asked["params"]), taken) == (shown, 202)
    assert "Ada" in result["content"][0]["text"]


def test_answers_that_are_late_doubled_foreign_or_to_nothing_do_no_harm_and_are_on_record(
    spoken: Server, everything: Server
) -> None:
    tenant = new_tenant(spoken)["slug"]
    here = Mcp(everything, keys_of=spoken, tenant=tenant)
    session, other = Session(here, capabilities=ASKED), Session(here, capabilities=ASKED)
    colleague = Session(Mcp(everything, keys_of=spoken, user="bob", tenant=tenant), capabilities=ASKED)
    eve = {"action": "accept", "content": {"name": "Eve"}}

    with session.call("test_input_required_result_elicitation") as call:
        ref = call.next("elicitation/create")["id"]
        strange = [one.answer(ref, eve) for one in (other, colleague)]
        strange += [session.answer(wrong, eve) for wrong in (1, None, "", "ab", f"{ref}x", ref.replace("/", "/0", 1))]
        unfit = [session.answer("a\0b", eve), session.answer(ref, {"action": "accept", "content": {"name": "E\0e"}})]
        first = session.answer(ref, ADA)
        result = call.result()
    doubled = session.answer(ref, eve)

    assert ({*strange, first, doubled}, unfit) == ({202}, [400, 400])
    assert "Ada" in result["content"][0]["text"]
    task_id = ref.partition("/")[0]
    foreign = [(named, "NOT_FOUND") for named in (task_id, task_id, "1", "", "", "ab", task_id, task_id)]
    assert refused_answers(here) == [*foreign, (task_id, "CONFLICT")]


@pytest.mark.parametrize(
    "unfit", [None, {"action": "cancel"}, {"action": "accept", "content": {"name": 5}}, {"nonsense": True}]
)
def test_what_is_not_answered_ends_the_call_and_leaves_the_question_open(here: Mcp, there: Mcp, unfit: Any) -> None:
    session = Session(here, capabilities=ASKED)

    with session.call("test_input_required_result_elicitation") as call:
        session.elsewhere(there).answer(call.next("elicitation/create")["id"], unfit)
        left = call.result()["structuredContent"]
    given = {"task_id": left["task_id"], "data": {"user_name": {"name": "Ada"}}}
    answered = here.call("asking", given)["structuredContent"]

    assert left["state"] == "input_required"
    assert (answered["state"], "Ada" in answered["text"]) == ("succeeded", True)


def test_a_question_that_is_declined_cancels_its_task(here: Mcp, there: Mcp) -> None:
    session = Session(here, capabilities=ASKED)

    with session.call("confirm_delete", filename="a.txt") as call:
        session.elsewhere(there).answer(call.next("elicitation/create")["id"], {"action": "decline"})
        result = call.result()

    assert (result["isError"], result["structuredContent"]["state"]) == (True, "cancelled")


def test_a_client_that_leaves_can_still_answer(here: Mcp, there: Mcp) -> None:
    """The task goes on with an answer for which nobody waits any more."""
    session = Session(here, capabilities=ASKED)

    with session.call("test_input_required_result_elicitation") as call:
        ref = call.next("elicitation/create")["id"]
    task_id = ref.partition("/")[0]
    with Ear(there, capabilities={"extensions": {TASKS: {}}}, taskIds=[task_id]) as ear:
        before = ear.next("notifications/tasks")
        session.elsewhere(there).answer(ref, ADA)
        after = ear.next("notifications/tasks")
        while after["status"] == "working":
            after = ear.next("notifications/tasks")

    assert before["status"] == "input_required"
    assert (after["status"], "Ada" in str(after["result"])) == ("completed", True)


def test_a_client_is_asked_only_what_it_has_declared(here: Mcp) -> None:
    plain, modest = Session(here), Session(here, capabilities={"elicitation": {"url": {}}, "roots": {}})

    with plain.call("test_input_required_result_elicitation") as call:
        unasked = call.result()
    with modest.call("test_input_required_result_multiple_inputs") as call:
        asked = call.next("roots/list")
        modest.answer(asked["id"], {"roots": []})
        left = call.result()
    refused = modest.post("tools/call", {"name": "test_elicitation", "arguments": {"message": "Who?"}})
    without = here.call("test_input_required_result_elicitation", era=OLDER)

    assert {one["structuredContent"]["state"] for one in (unasked, left, without)} == {"input_required"}
    assert "-32021" in refused.text
