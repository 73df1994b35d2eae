"""Every skill and every form of answer, through the official client: what a new version of the SDK must still read."""

import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict

from tests.doors.a2a.official import BINDINGS, Caller, open_client, said
from tests.doors.rest.calling import new_tenant
from tests.harness import Server

pytestmark = [pytest.mark.sdk, pytest.mark.anyio, pytest.mark.filterwarnings("default")]
ENDED = {pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED}
# What the agent is asked, how the task then stands, and what its artifacts hold.
ANSWERS = {
    "tck-artifact-text": (pb.TASK_STATE_COMPLETED, "text"),
    "tck-artifact-file": (pb.TASK_STATE_COMPLETED, "raw"),
    "tck-artifact-file-url": (pb.TASK_STATE_COMPLETED, "url"),
    "tck-artifact-data": (pb.TASK_STATE_COMPLETED, "data"),
    "tck-task-failure": (pb.TASK_STATE_FAILED, None),
    "tck-crash": (pb.TASK_STATE_FAILED, None),
    "tck-reject": (pb.TASK_STATE_REJECTED, None),
    "tck-input-required": (pb.TASK_STATE_INPUT_REQUIRED, None),
    "tck-auth-required": (pb.TASK_STATE_AUTH_REQUIRED, None),
}


@pytest.mark.req("RAD-C1-3")
@pytest.mark.parametrize("binding", BINDINGS)
async def test_every_tool_of_every_skill_answers_the_official_client(served: Server, binding: str) -> None:
    token = served.token(role="super_admin", tenant=new_tenant(served)["slug"])
    async with open_client(served, binding, streaming=False, token=token) as caller:
        card = await caller.client.get_extended_agent_card(pb.GetExtendedAgentCardRequest(), context=caller.context)
        tools = MessageToDict(card.capabilities.extensions[0].params)["tools"]
        answers = {tool["name"]: await _use(caller, tool["name"]) for tool in tools}

    assert {tool["skill"] for tool in tools} | {"conformance"} == {skill.id for skill in card.skills}
    assert {name: answer for name, answer in answers.items() if answer.status.state not in ENDED} == {}
    assert answers["identity_show"].status.state == pb.TASK_STATE_COMPLETED
    for answer in answers.values():
        assert answer.artifacts or answer.status.message.parts


@pytest.mark.req("RAD-C1-3")
@pytest.mark.parametrize("binding", BINDINGS)
async def test_every_form_of_answer_is_read_by_the_official_client(served: Server, binding: str) -> None:
    async with open_client(served, binding, streaming=False) as caller:
        tasks = {asked: await caller.task(said(asked)) for asked in ANSWERS}
        [reply] = await caller.events(said("tck-message-response"))

    shown = {
        asked: (task.status.state, task.artifacts[0].parts[0].WhichOneof("content") if task.artifacts else None)
        for asked, task in tasks.items()
    }
    assert shown == ANSWERS
    assert reply.message.parts[0].text == "Direct message response"


async def _use(caller: Caller, tool: str) -> pb.Task:
    """Without arguments: most tools then say what they need, and that is an answer too."""
    call = pb.Part()
    call.data.struct_value.update({"tool": tool, "arguments": {}})
    request = said("")
    request.message.parts[0].CopyFrom(call)
    [answer] = await caller.events(request)
    return answer.task
