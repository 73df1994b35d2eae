"""The official Python client over every binding: what it reads here, any A2A client reads."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Any
from uuid import uuid4

import grpc.aio
import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)

from tests.harness import Server

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("default")]
BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


class Caller:
    """The official client, with what it needs to say who asks."""

    def __init__(self, client: Any, token: str) -> None:
        self.client = client
        self.context = ClientCallContext(service_parameters={"authorization": f"Bearer {token}"})

    async def events(self, request: pb.SendMessageRequest) -> list[pb.StreamResponse]:
        return [event async for event in self.client.send_message(request, context=self.context)]

    async def task(self, request: pb.SendMessageRequest) -> pb.Task:
        request.configuration.accepted_output_modes.append("text/plain")
        [answer] = await self.events(request)
        return answer.task


@pytest.fixture(params=BINDINGS)
async def binding(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def asking(served: Server, binding: str) -> AsyncIterator[Caller]:
    async with open_client(served, binding, streaming=False) as caller:
        yield caller


@pytest.fixture
async def streaming(served: Server, binding: str) -> AsyncIterator[Caller]:
    async with open_client(served, binding, streaming=True) as caller:
        yield caller


class open_client:  # noqa: N801 - used as the function that it stands for
    """A client that takes the server's card at its word."""

    def __init__(self, server: Server, binding: str, *, streaming: bool, token: str | None = None) -> None:
        self._server, self._binding, self._streaming = server, binding, streaming
        self._token = server.token() if token is None else token
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Caller:
        http = await self._stack.enter_async_context(httpx.AsyncClient(timeout=20))
        config = ClientConfig(
            httpx_client=http,
            supported_protocol_bindings=[self._binding],
            streaming=self._streaming,
            grpc_channel_factory=grpc.aio.insecure_channel,
        )
        client = await ClientFactory(config).create_from_url(self._server.url)
        self._stack.push_async_callback(client.close)
        return Caller(client, self._token)

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


def _said(text: str, **fields: Any) -> pb.SendMessageRequest:
    message = pb.Message(role=pb.ROLE_USER, message_id=uuid4().hex, parts=[pb.Part(text=text)], **fields)
    return pb.SendMessageRequest(message=message)


async def test_a_conversation(asking: Caller) -> None:
    first = await asking.task(_said("tck-multi-turn"))
    last = await asking.task(_said("done", task_id=first.id))

    assert first.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert last.status.state == pb.TASK_STATE_COMPLETED
    assert await asking.client.get_task(pb.GetTaskRequest(id=first.id), context=asking.context) == last
    wanted = pb.ListTasksRequest(context_id=first.context_id, include_artifacts=True)
    listed = await asking.client.list_tasks(wanted, context=asking.context)
    assert (list(listed.tasks), listed.total_size) == ([last], 1)


async def test_a_stream_shows_the_task_and_then_what_happens_to_it(streaming: Caller) -> None:
    events = await streaming.events(_said("tck-stream-basic"))

    assert events[0].WhichOneof("payload") == "task"
    assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_a_running_task_is_followed_and_cancelled(streaming: Caller) -> None:
    client, context = streaming.client, streaming.context
    async with aclosing(client.send_message(_said("tck-cancel"), context=context)) as begun:
        task = (await anext(begun)).task
        async with aclosing(client.subscribe(pb.SubscribeToTaskRequest(id=task.id), context=context)) as followed:
            first = await anext(followed)
            cancelled = await client.cancel_task(pb.CancelTaskRequest(id=task.id), context=context)
            rest = [event async for event in followed]

    assert first.task.id == task.id
    assert cancelled.status.state == pb.TASK_STATE_CANCELED
    assert rest[-1].status_update.status.state == pb.TASK_STATE_CANCELED


async def test_the_extended_card_is_for_the_caller(asking: Caller) -> None:
    card = await asking.client.get_extended_agent_card(pb.GetExtendedAgentCardRequest(), context=asking.context)

    assert "identity" in {skill.id for skill in card.skills}
    assert card.capabilities.extended_agent_card


async def test_errors_arrive_as_the_protocols_own(asking: Caller) -> None:
    client, context = asking.client, asking.context
    task = await asking.task(_said("hello"))
    film = _said("")
    film.message.parts[0].CopyFrom(pb.Part(raw=b"\x00", media_type="video/x-nobody-reads"))
    newer = ClientCallContext(service_parameters={**(context.service_parameters or {}), "A2A-Version": "7.0"})

    with pytest.raises(TaskNotFoundError):
        await client.get_task(pb.GetTaskRequest(id="nobody"), context=context)
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(pb.CancelTaskRequest(id=task.id), context=context)
    with pytest.raises(UnsupportedOperationError):
        await asking.task(_said("again", task_id=task.id))
    with pytest.raises(InvalidParamsError):
        await client.list_tasks(pb.ListTasksRequest(page_size=1000), context=context)
    with pytest.raises(ContentTypeNotSupportedError):
        await asking.events(film)
    with pytest.raises(VersionNotSupportedError):
        await client.get_task(pb.GetTaskRequest(id=task.id), context=newer)


async def test_a_stream_that_cannot_begin_says_why(streaming: Caller) -> None:
    [*_, last] = await streaming.events(_said("hello"))
    ended = last.task.id or last.status_update.task_id

    for ref, error in ((ended, UnsupportedOperationError), ("nobody", TaskNotFoundError)):
        with pytest.raises(error):
            [_ async for _ in streaming.client.subscribe(pb.SubscribeToTaskRequest(id=ref), context=streaming.context)]


async def test_who_says_nothing_of_himself_is_refused(served: Server, binding: str) -> None:
    async with open_client(served, binding, streaming=False, token="nobody's") as stranger:
        with pytest.raises(A2AClientError, match=r"401|UNAUTHENTICATED"):
            await stranger.client.get_task(pb.GetTaskRequest(id="any"), context=stranger.context)
