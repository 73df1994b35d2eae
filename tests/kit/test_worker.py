import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import BaseModel

from dragoman.kit import (
    Event,
    Finished,
    LlmLimitReached,
    LlmUnavailable,
    LlmWorker,
    TextDelta,
    Thread,
    Tool,
    ToolCallPart,
    ToolFinished,
    ToolResult,
    ToolStarted,
    Usage,
    tool,
)
from dragoman.kit.testing import RecordingTool, ScriptedLlm, ScriptExhausted, call
from tests.patience import PATIENCE_S


class Weather(BaseModel):
    degrees: int


@pytest.mark.req("KIT-2")
async def test_it_loops_over_turns_and_tools_and_the_caller_holds_the_thread() -> None:
    weather = RecordingTool("weather", {"degrees": 21})
    llm = ScriptedLlm(call("weather", town="Bonn"), Weather(degrees=21))
    worker = LlmWorker(llm, Weather, tools=[weather])
    mine = Thread.from_user("how warm is it?")

    value, thread = await worker.run_and_continue(mine)

    assert value == Weather(degrees=21)
    assert weather.calls == [{"town": "Bonn"}]
    assert [event.role for event in thread] == ["user", "assistant", "tool", "assistant"]
    assert thread[2].content.tool_responses[0].output == {"degrees": 21}
    assert len(mine) == 1
    assert worker.usage == Usage(20, 10, 2)


async def test_a_second_run_knows_nothing_of_the_first() -> None:
    llm = ScriptedLlm("one", "two")
    worker = LlmWorker(llm, str)

    await worker.run("first")
    await worker.run("second")

    assert [event.text for event in llm.calls[1].thread] == ["second"]


async def test_calls_of_one_turn_run_side_by_side() -> None:
    both = asyncio.Barrier(2)

    @tool("Wait for the other.")
    async def meet(name: str) -> str:
        await both.wait()
        return name

    llm = ScriptedLlm([call("meet", name="a"), call("meet", name="b")], "met")

    async with asyncio.timeout(PATIENCE_S):
        _, thread = await LlmWorker(llm, str, tools=[meet]).run_and_continue("go")

    assert [response.output for response in thread[2].content.tool_responses] == ["a", "b"]


async def test_a_tool_that_does_not_exist_is_told_to_the_model() -> None:
    llm = ScriptedLlm(call("wether"), "sorry")

    _, thread = await LlmWorker(llm, str, tools=[RecordingTool("weather")]).run_and_continue("go")

    told = thread[2].content.tool_responses[0]
    assert told.is_error
    assert told.output == "there is no tool 'wether' (did you mean 'weather'?); the tools are: weather"


@pytest.mark.parametrize(
    ("reply", "returns", "told"),
    [
        (call("t"), RuntimeError("secret"), "the tool t failed"),
        (call("t"), ToolResult.error("no luck"), "no luck"),
        (ToolCallPart(id="1", name="t", malformed="{oops"), None, "the arguments are not a JSON object"),
    ],
)
async def test_what_goes_wrong_with_a_tool_is_told_to_the_model(reply: Any, returns: Any, told: str) -> None:
    _, thread = await LlmWorker(ScriptedLlm(reply, "ok"), str, tools=[RecordingTool("t", returns)]).run_and_continue(
        "go"
    )

    response = thread[2].content.tool_responses[0]
    assert response.is_error
    assert told in str(response.output)
    assert "secret" not in str(response.output)


async def test_an_answer_of_the_wrong_shape_is_told_to_the_model() -> None:
    llm = ScriptedLlm({"degrees": "warm"}, Weather(degrees=3))

    assert await LlmWorker(llm, Weather).run("go") == Weather(degrees=3)
    assert "degrees: Input should be a valid integer" in llm.calls[1].thread[-1].text


async def test_a_worker_that_runs_in_circles_is_stopped_with_its_thread_in_hand() -> None:
    llm = ScriptedLlm(*[call("t")] * 3)

    with pytest.raises(LlmLimitReached) as caught:
        await LlmWorker(llm, str, tools=[RecordingTool("t")], max_iterations=3).run("go")

    assert len(llm.calls) == 3
    assert len(caught.value.thread) == 7
    assert caught.value.usage == Usage(30, 15, 3)
    assert caught.value.details == {"reason": "LLM_LIMIT"}


async def test_a_worker_that_is_too_dear_is_stopped_before_the_next_turn() -> None:
    llm = ScriptedLlm(*[call("t")] * 9)

    with pytest.raises(LlmLimitReached, match="30 tokens"):
        await LlmWorker(llm, str, tools=[RecordingTool("t")], budget_tokens=30).run("go")

    assert len(llm.calls) == 2


async def test_streaming_shows_text_and_tools_as_they_come() -> None:
    llm = ScriptedLlm(call("t", a=1), "one\ntwo")

    async with aclosing(LlmWorker(llm, str, tools=[RecordingTool("t", 5)]).stream("go")) as events:
        seen = [event async for event in events]

    asked = ToolCallPart(id="call_1_0", name="t", arguments={"a": 1})
    assert seen[:-1] == [
        ToolStarted(asked),
        ToolFinished(asked, ToolResult(5)),
        TextDelta("one\n"),
        TextDelta("two"),
    ]
    assert isinstance(seen[-1], Finished)
    assert (seen[-1].value, seen[-1].usage, len(seen[-1].thread)) == ("one\ntwo", Usage(20, 10, 2), 4)


async def test_a_toolset_is_asked_when_the_work_begins() -> None:
    class Set:
        async def list_tools(self) -> list[Tool]:
            return [RecordingTool("a"), RecordingTool("b")]

    llm = ScriptedLlm("done")

    await LlmWorker(llm, str, tools=[Set()]).run("go")

    assert [spec.name for spec in llm.calls[0].tools] == ["a", "b"]


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named 'a'"):
        await LlmWorker(ScriptedLlm(), str, tools=[RecordingTool("a"), RecordingTool("a")]).run("go")


async def test_errors_of_the_model_pass_through() -> None:
    with pytest.raises(LlmUnavailable):
        await LlmWorker(ScriptedLlm(LlmUnavailable("m", "down")), str).run("go")
    with pytest.raises(ScriptExhausted):
        await LlmWorker(ScriptedLlm(), str).run(Event.user("go"))


async def test_a_cancelled_worker_cancels_its_tools() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool("Hang.")
    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    work = asyncio.create_task(LlmWorker(ScriptedLlm(call("hang")), str, tools=[hang]).run("go"))
    async with asyncio.timeout(PATIENCE_S):
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    assert stopped.is_set()
