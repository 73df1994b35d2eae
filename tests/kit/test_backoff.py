"""What a busy server says about when to come back reaches whoever decides on the next attempt."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from dragoman.backoff import LONGEST_S, jittered, read_retry_after
from dragoman.errors import DragomanError
from dragoman.kit import LlmRequest, LlmUnavailable, OpenAICompatible, RemoteUnavailable, Thread, ToolContext, ToolError
from dragoman.kit.toolsets import A2aAgentTool, McpToolset, OpenApiToolset
from dragoman.services.workers.remote_answers import failure_of
from tests.kit.web import Reply, Web, answer

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "paths": {"/pets": {"get": {"operationId": "list_pets", "summary": "List pets.", "responses": {}}}},
}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        (" 0 ", 0),
        (2.5, 3),
        (-1, 0),
        ("999999999999999999", LONGEST_S),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), 0),
        (format_datetime(NOW + timedelta(days=9), usegmt=True), LONGEST_S),
        (None, None),
        ("", None),
        ("soon", None),
        ("1.5", None),
        ("٣", None),
        (True, None),
        (float("nan"), None),
        ([], None),
    ],
)
def test_seconds_and_dates_are_read_and_bounded(value: object, seconds: int | None) -> None:
    assert read_retry_after(value, now=NOW) == seconds


def busy(status: int, wait: str) -> Reply:
    return answer(status, "", retry_after=wait)


def in_ten_days() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(days=10), usegmt=True)


@pytest.mark.parametrize(("wait", "seconds"), [(lambda: "17", 17), (in_ten_days, LONGEST_S)])
@pytest.mark.parametrize("status", [429, 503])
async def test_models_and_agents_say_it_with_their_error(
    web: Web, status: int, wait: Callable[[], str], seconds: int
) -> None:
    agent = A2aAgentTool(web.url, name="far", description="Far away.")
    web.script += [busy(status, wait())] * 2
    async with OpenAICompatible(web.url, "m", max_retries=0) as llm:
        with pytest.raises(LlmUnavailable) as model:
            await llm.generate(LlmRequest(Thread.from_user("hi")))
    with pytest.raises(RemoteUnavailable) as remote:
        await agent.ask(ToolContext(), "hello")

    assert (model.value.retry_after_s, remote.value.retry_after_s) == (seconds, seconds)


@pytest.mark.parametrize("status", [429, 503])
async def test_tools_say_it_in_the_details_of_their_error(web: Web, status: int) -> None:
    web.script += [busy(status, "17")] * 3
    (pets,) = OpenApiToolset(DOCUMENT, base_url=web.url)
    agent = A2aAgentTool(web.url, name="far", description="Far away.")

    results = [await pets.call({}), await agent.call({"message": "hello"})]

    assert [result.details["retry_after_s"] for result in results] == [17, 17]


@pytest.mark.parametrize("status", [429, 503])
async def test_an_mcp_server_that_is_busy_says_it_too(web: Web, status: int) -> None:
    web.script += [busy(status, "17")] * 10
    async with McpToolset(f"{web.url}/mcp") as server:
        with pytest.raises(ToolError) as caught:
            await server.list_tools()

    assert caught.value.retry_after_s == 17


def test_a_worker_outside_says_it_with_a_failure_that_passes() -> None:
    told = {"code": "RATE_LIMITED", "retry_after_s": 17}

    assert failure_of("far", "failed", "busy", told, passing=True).retry_after_s == 17
    assert failure_of("far", "failed", "busy", told, passing=False).retry_after_s is None


def test_every_error_has_the_attribute() -> None:
    assert DragomanError("x").retry_after_s is None


def test_jitter_leaves_the_generator_of_the_program_around_us_alone() -> None:
    before = random.getstate()

    waits = {jittered(8.0) for _ in range(50)}

    assert random.getstate() == before
    assert len(waits) > 1
    assert all(4.0 <= wait <= 8.0 for wait in waits)
