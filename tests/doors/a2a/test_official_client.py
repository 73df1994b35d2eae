"""The official Python client over both HTTP bindings: what it reads here, any A2A client reads."""

# pyright: reportMissingImports=false
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.harness import Server

pytest.importorskip("a2a.client", reason="the official SDK is not installed: pip install a2a-sdk==1.3.0")

from a2a.client import ClientConfig, create_client
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("default")]


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
async def client(served: Server, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    headers = {"authorization": f"Bearer {served.token()}"}
    async with httpx.AsyncClient(headers=headers, timeout=20) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[request.param], streaming=False)
        yield await create_client(served.url, client_config=config)


def _said(text: str, **fields: Any) -> pb.SendMessageRequest:
    message = pb.Message(role=pb.ROLE_USER, message_id=uuid4().hex, parts=[pb.Part(text=text)], **fields)
    return pb.SendMessageRequest(message=message)


async def _task(client: Any, request: pb.SendMessageRequest) -> pb.Task:
    [answer] = [event async for event in client.send_message(request)]
    return answer.task


async def test_a_conversation(client: Any) -> None:
    first = await _task(client, _said("tck-multi-turn"))
    last = await _task(client, _said("done", task_id=first.id))

    assert first.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert last.status.state == pb.TASK_STATE_COMPLETED
    assert await client.get_task(pb.GetTaskRequest(id=first.id)) == last
    listed = await client.list_tasks(pb.ListTasksRequest(context_id=first.context_id, include_artifacts=True))
    assert list(listed.tasks) == [last]


async def test_errors_arrive_as_the_protocols_own(client: Any) -> None:
    task = await _task(client, _said("hello"))

    with pytest.raises(TaskNotFoundError):
        await client.get_task(pb.GetTaskRequest(id="nobody"))
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(pb.CancelTaskRequest(id=task.id))
    with pytest.raises(UnsupportedOperationError):
        await _task(client, _said("again", task_id=task.id))
