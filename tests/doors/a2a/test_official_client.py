"""The official Python client over every binding: what it reads here, any A2A client reads."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
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

from tests.doors.a2a.official import BINDINGS, Caller, open_client, said
from tests.harness import Server

pytestmark = [pytest.mark.sdk, pytest.mark.anyio, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module", autouse=True)
async def _one_loop() -> AsyncIterator[None]:
    """What gRPC polls with outlives a channel, so the loop must outlive the test."""
    yield  # noqa: PT022 - returning would end the loop


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


async def test_a_conversation(asking: Caller) -> None:
    first = await asking.task(said("tck-multi-turn"))
    last = await asking.task(said("done", task_id=first.id))

    assert first.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert last.status.state == pb.TASK_STATE_COMPLETED
    assert await asking.client.get_task(pb.GetTaskRequest(id=first.id), context=asking.context) == last
    wanted = pb.ListTasksRequest(context_id=first.context_id, include_artifacts=True)
    listed = await asking.client.list_tasks(wanted, context=asking.context)
    assert (list(listed.tasks), listed.total_size) == ([last], 1)


async def test_a_stream_shows_the_task_and_then_what_happens_to_it(streaming: Caller) -> None:
    events = await streaming.events(said("tck-stream-basic"))

    assert events[0].WhichOneof("payload") == "task"
    assert events[-1].status_update.status.state == pb.TASK_STATE_COMPLETED


async def test_a_running_task_is_followed_and_cancelled(streaming: Caller) -> None:
    client, context = streaming.client, streaming.context
    async with aclosing(client.send_message(said("tck-cancel"), context=context)) as begun:
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
    task = await asking.task(said("hello"))
    film = said("")
    film.message.parts[0].CopyFrom(pb.Part(raw=b"\x00", media_type="video/x-nobody-reads"))
    newer = ClientCallContext(service_parameters={**(context.service_parameters or {}), "A2A-Version": "7.0"})

    with pytest.raises(TaskNotFoundError):
        await client.get_task(pb.GetTaskRequest(id="nobody"), context=context)
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(pb.CancelTaskRequest(id=task.id), context=context)
    with pytest.raises(UnsupportedOperationError):
        await asking.task(said("again", task_id=task.id))
    with pytest.raises(InvalidParamsError):
        await client.list_tasks(pb.ListTasksRequest(page_size=1000), context=context)
    with pytest.raises(ContentTypeNotSupportedError):
        await asking.events(film)
    with pytest.raises(VersionNotSupportedError):
        await client.get_task(pb.GetTaskRequest(id=task.id), context=newer)


async def test_a_stream_that_cannot_begin_says_why(streaming: Caller) -> None:
    [*_, last] = await streaming.events(said("hello"))
    ended = last.task.id or last.status_update.task_id

    for ref, error in ((ended, UnsupportedOperationError), ("nobody", TaskNotFoundError)):
        with pytest.raises(error):
            [_ async for _ in streaming.client.subscribe(pb.SubscribeToTaskRequest(id=ref), context=streaming.context)]


async def test_who_says_nothing_of_himself_is_refused(served: Server, binding: str) -> None:
    async with open_client(served, binding, streaming=False, token="nobody's") as stranger:
        with pytest.raises(A2AClientError, match=r"401|UNAUTHENTICATED"):
            await stranger.client.get_task(pb.GetTaskRequest(id="any"), context=stranger.context)
