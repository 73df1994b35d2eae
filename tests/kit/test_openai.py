"""The provider against a real server that speaks the chat-completions protocol, well and badly."""

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import BaseModel

from dragoman.errors import Kind
from dragoman.kit import (
    Content,
    Event,
    FilePart,
    Llm,
    LlmChunk,
    LlmFunction,
    LlmRefused,
    LlmRequest,
    LlmResponse,
    LlmUnavailable,
    LlmWorker,
    OpenAICompatible,
    TextDelta,
    Thread,
    ToolCallPart,
    ToolResponsePart,
    Usage,
    tool,
)
from tests.kit.web import Reply, Web, answer, drip, drop, events, hang

KEY = "sk-very-secret"
HELLO = LlmRequest(Thread.from_system("be kind").add_event(Event.user("hi")))


def completion(content: str | None = "hello", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}


def delta(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


class Pauses:
    """Stands in for sleeping, and remembers for how long."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
async def llm(web: Web, pauses: Pauses) -> AsyncIterator[OpenAICompatible]:
    async with OpenAICompatible(f"{web.url}/v1/", "tiny", api_key=KEY, sleep=pauses, options={"seed": 1}) as made:
        yield made


async def streamed(llm: Llm, request: LlmRequest = HELLO) -> list[LlmChunk]:
    return [chunk async for chunk in llm.stream(request)]


async def test_it_asks_as_the_protocol_wants_and_reads_the_answer(llm: OpenAICompatible, web: Web) -> None:
    web.script.append(answer(200, completion()))

    response = await llm.generate(HELLO)

    assert response == LlmResponse(Content.of("hello"), Usage(7, 3, 1))
    assert isinstance(llm, Llm)
    assert (web.seen[0].method, web.seen[0].path) == ("POST", "/v1/chat/completions")
    assert web.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert web.seen[0].body == {
        "seed": 1,
        "model": "tiny",
        "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}],
    }


class Trip(BaseModel):
    to: str
    days: int | None = None


class Anything(BaseModel):
    extra: dict[str, int]


async def test_structured_output_uses_the_native_schema_in_strict_mode(llm: OpenAICompatible, web: Web) -> None:
    web.script.append(answer(200, completion('{"to": "Rome", "days": null}')))

    assert await LlmFunction(llm, Trip).run("to Rome") == Trip(to="Rome")

    sent = web.seen[0].body["response_format"]["json_schema"]
    assert (sent["name"], sent["strict"]) == ("Trip", True)
    assert sent["schema"]["required"] == ["to", "days"]
    assert sent["schema"]["additionalProperties"] is False
    assert "default" not in sent["schema"]["properties"]["days"]


async def test_a_schema_that_strict_mode_cannot_say_is_sent_as_it_is(llm: OpenAICompatible, web: Web) -> None:
    web.script.append(answer(200, completion('{"extra": {"a": 1}}')))

    assert await LlmFunction(llm, Anything).run("x") == Anything(extra={"a": 1})

    sent = web.seen[0].body["response_format"]["json_schema"]
    assert sent["strict"] is False
    assert sent["schema"] == Anything.model_json_schema()


async def test_a_server_without_schemas_gets_it_in_the_prompt(web: Web) -> None:
    web.script.append(answer(200, completion('{"to": "Rome"}')))
    async with OpenAICompatible(web.url, "old", native_schema=False) as llm:
        await LlmFunction(llm, Trip).run("to Rome")

    assert "response_format" not in web.seen[0].body
    assert "JSON schema" in web.seen[0].body["messages"][0]["content"]
    assert "authorization" not in web.seen[0].headers


@tool("Tell the weather.", read_only=True)
async def weather(town: str) -> str:
    return f"sunny in {town}"


async def test_a_tool_loop_goes_over_the_wire_and_back(llm: OpenAICompatible, web: Web) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Bonn"}'}}
    broken = {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{oops"}}
    web.script += [answer(200, completion(None, tool_calls=[call, broken])), answer(200, completion("Sunny."))]
    worker = LlmWorker(llm, str, tools=[weather])

    assert await worker.run("how is it in Bonn?") == "Sunny."

    assert web.seen[0].body["tools"][0]["function"]["parameters"]["required"] == ["town"]
    asked, *told = web.seen[1].body["messages"][1:]
    assert asked == {"role": "assistant", "content": None, "tool_calls": [call, broken]}
    assert told[0] == {"role": "tool", "tool_call_id": "c1", "content": "sunny in Bonn"}
    assert told[1]["content"].startswith("error: the arguments are not a JSON object")
    assert worker.usage == Usage(14, 6, 2)


async def test_files_and_data_are_written_as_the_protocol_has_them(llm: OpenAICompatible, web: Web) -> None:
    web.script.append(answer(200, completion()))
    said = [
        "look",
        {"a": 1},
        FilePart(mime="image/png", data=b"png"),
        FilePart(name="r.pdf", mime="application/pdf", data=b"pdf"),
        FilePart(name="x.zip", mime="application/zip", uri="https://example.com/x.zip"),
    ]
    thread = Thread.from_user(said).add_events(
        [
            Event.assistant([ToolCallPart(id="1", name="t", arguments={"a": 1})]),
            Event.tool(ToolResponsePart(call_id="1", name="t", output={"b": 2})),
        ]
    )

    await llm.generate(LlmRequest(thread))

    user, _, told = web.seen[0].body["messages"]
    assert user["content"] == [
        {"type": "text", "text": 'look\n{"a": 1}'},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "file", "file": {"filename": "r.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
        {"type": "text", "text": "[file x.zip at https://example.com/x.zip]"},
    ]
    assert told["content"] == '{"b": 2}'


async def test_streaming_gives_text_as_it_comes_then_the_whole(llm: OpenAICompatible, web: Web) -> None:
    web.script.append(
        events(
            delta(role="assistant", content=""),
            delta(content="hel"),
            delta(content="lo"),
            delta("stop"),
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
            "[DONE]",
        )
    )

    chunks = await streamed(llm)

    assert chunks == [TextDelta("hel"), TextDelta("lo"), LlmResponse(Content.of("hello"), Usage(7, 3, 1))]
    assert web.seen[0].body["stream_options"] == {"include_usage": True}


async def test_streamed_tool_calls_are_put_together(llm: OpenAICompatible, web: Web) -> None:
    def piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
        function = {"arguments": arguments, **({"name": more["name"]} if "name" in more else {})}
        return {"index": index, "function": function, **({"id": more["id"]} if "id" in more else {})}

    web.script.append(
        events(
            delta(tool_calls=[piece(0, "", id="a", name="weather")]),
            delta(tool_calls=[piece(0, '{"town":')]),
            delta(tool_calls=[piece(1, "{}", id="b", name="time")]),
            delta(tool_calls=[piece(0, ' "Bonn"}')]),
            delta("tool_calls"),
            "[DONE]",
        )
    )

    chunks = await streamed(llm)

    assert isinstance(chunks[-1], LlmResponse)
    assert chunks[-1].content.tool_calls == (
        ToolCallPart(id="a", name="weather", arguments={"town": "Bonn"}),
        ToolCallPart(id="b", name="time"),
    )


async def test_a_busy_server_is_tried_again_after_the_pause_it_asks_for(
    llm: OpenAICompatible, web: Web, pauses: Pauses
) -> None:
    web.script += [answer(429, "slow down", retry_after="7"), answer(503, ""), answer(200, completion())]

    assert (await llm.generate(HELLO)).content.text == "hello"

    assert len(web.seen) == 3
    assert pauses.taken[0] == 7
    assert 1 <= pauses.taken[1] <= 2


async def test_a_server_that_asks_for_too_long_a_pause_is_not_obeyed(
    llm: OpenAICompatible, web: Web, pauses: Pauses
) -> None:
    web.script += [answer(429, "", retry_after="86400"), answer(200, completion())]

    await llm.generate(HELLO)

    assert pauses.taken == [30]


NONSENSE: list[Reply] = [
    answer(500, "oops"),
    answer(200, "<html>welcome</html>"),
    answer(200, {"choices": "none"}),
    answer(200, {"choices": []}),
    drop,
]


@pytest.mark.parametrize("reply", NONSENSE)
async def test_a_server_that_stays_broken_is_unavailable_after_bounded_tries(
    llm: OpenAICompatible, web: Web, pauses: Pauses, reply: Reply
) -> None:
    web.script += [reply] * 9

    with pytest.raises(LlmUnavailable) as caught:
        await llm.generate(HELLO)

    assert (len(web.seen), len(pauses.taken)) == (3, 2)
    assert (caught.value.kind, caught.value.code) == (Kind.UNAVAILABLE, "UPSTREAM_UNAVAILABLE")


@pytest.mark.parametrize("reply", [answer(502, ""), events(), drop])
async def test_a_stream_that_never_begins_is_tried_again(llm: OpenAICompatible, web: Web, reply: Reply) -> None:
    web.script += [reply, events(delta(content="hi"), delta("stop"), "[DONE]")]

    assert (await streamed(llm))[0] == TextDelta("hi")


@pytest.mark.parametrize("rest", [[], ["{broken"]])
async def test_a_stream_that_breaks_off_is_an_error_and_not_repeated(
    llm: OpenAICompatible, web: Web, rest: list[str]
) -> None:
    web.script.append(events(delta(content="half"), *rest))
    chunks: list[LlmChunk] = []

    async def follow() -> None:
        async for chunk in llm.stream(HELLO):
            chunks.append(chunk)  # noqa: PERF401 what came before the error counts

    with pytest.raises(LlmUnavailable):
        await follow()

    assert chunks == [TextDelta("half")]
    assert len(web.seen) == 1


async def test_a_stream_can_be_left_in_the_middle(llm: OpenAICompatible, web: Web) -> None:
    web.script.append(events(*[delta(content="x")] * 100, delta("stop"), "[DONE]"))

    async with aclosing(llm.stream(HELLO)) as chunks:
        assert await anext(chunks) == TextDelta("x")


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_server_that_hangs_is_a_timeout_and_not_tried_again(web: Web, pauses: Pauses, streaming: bool) -> None:
    web.script.append(hang)
    async with OpenAICompatible(web.url, "tiny", timeout_s=0.05, sleep=pauses) as llm:
        with pytest.raises(LlmUnavailable) as caught:
            await (streamed(llm) if streaming else llm.generate(HELLO))

    assert caught.value.reason == "no answer within 0.05 s"
    assert (len(web.seen) <= 1, pauses.taken) == (True, [])  # a busy machine may not even get to ask


async def test_a_server_that_drips_is_a_timeout_too(web: Web, pauses: Pauses) -> None:
    web.script.append(drip)
    async with OpenAICompatible(web.url, "tiny", timeout_s=0.2, sleep=pauses) as llm:
        with pytest.raises(LlmUnavailable) as caught:
            await llm.generate(HELLO)

    assert caught.value.reason == "no answer within 0.2 s"
    assert pauses.taken == []


async def test_nobody_at_the_address_is_unavailable(pauses: Pauses) -> None:
    async with OpenAICompatible("http://127.0.0.1:1/v1", "tiny", sleep=pauses) as llm:
        with pytest.raises(LlmUnavailable):
            await llm.generate(HELLO)

    assert len(pauses.taken) == 2


async def test_a_refusal_is_not_tried_again_and_never_shows_the_key(
    llm: OpenAICompatible, web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    web.script.append(answer(401, f"bad key {KEY}"))

    with caplog.at_level(logging.DEBUG), pytest.raises(LlmRefused) as caught:
        await llm.generate(HELLO)

    error = caught.value
    assert error.details == {"reason": "LLM_REFUSED", "status": 401}
    assert error.reason == "bad key ***"
    assert KEY not in f"{error!r} {llm!r} {vars(llm)!r} {caplog.text}"
