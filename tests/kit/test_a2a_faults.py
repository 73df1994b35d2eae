"""Another agent that is down, slow, broken or hostile, played by a script."""

import gzip
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.kit import (
    Content,
    DataPart,
    FilePart,
    InMemoryState,
    RemoteUnavailable,
    State,
    TextPart,
    ToolContext,
    ToolResult,
)
from dragoman.kit.toolsets import A2aAgentTool, A2aToolset
from tests.kit.web import Handler, Reply, Web, answer, drip, drop, free_port, hang


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as running:
        yield running


def card(host: str, **changes: Any) -> Reply:
    interface = {"url": f"{host}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", **changes}
    return answer(200, {"name": "far", "supportedInterfaces": [interface]})


def result(value: Any) -> Reply:
    return answer(200, {"jsonrpc": "2.0", "id": "1", "result": value})


def task(state: str, **fields: Any) -> dict[str, Any]:
    return {"id": "r-1", "contextId": "rc-1", "status": {"state": f"TASK_STATE_{state}"}, **fields}


def remote(url: str, **options: Any) -> A2aAgentTool:
    return A2aAgentTool(url, name="far", description="Far away.", headers={"x-key": "secret"}, **options)


async def ask(web: Web, *replies: Reply, ctx: ToolContext | None = None, **options: Any) -> ToolResult:
    web.script[:] = replies
    return await remote(web.url, **options).call({"message": "hello"}, ctx)


def failed(result: ToolResult) -> tuple[str | None, Any]:
    assert result.is_error
    return result.code, result.details.get("reason")


@pytest.mark.parametrize(
    "reply", [drop, answer(503, "later"), answer(429, {"error": "slow down"}), answer(500, "<html>")]
)
async def test_a_remote_that_does_not_answer_is_unavailable(web: Web, reply: Reply) -> None:
    without_card = await ask(web, reply)
    with_card = await ask(web, card(web.url), reply)

    assert failed(without_card) == failed(with_card) == ("UPSTREAM_UNAVAILABLE", None)


async def test_a_remote_that_is_not_there_is_unavailable() -> None:
    result = await remote(f"http://127.0.0.1:{free_port()}").call({"message": "hello"})

    assert failed(result) == ("UPSTREAM_UNAVAILABLE", None)
    assert result.output == "the agent 'far' is unavailable; try again in 5 s"


@pytest.mark.parametrize("reply", [hang, drip])
async def test_a_remote_that_takes_too_long_is_told_as_a_time_out(web: Web, reply: Reply) -> None:
    assert failed(await ask(web, card(web.url), reply, timeout_s=0.3)) == ("TIMEOUT", None)


async def given_up_while_it_waits(web: Web) -> tuple[ToolContext, ToolResult]:
    """A call whose time is over when it has sent its message and waits for the task to end."""
    for timeout_s in (0.5, 5, 50):  # a busy machine may need more to get there
        web.seen.clear()
        ctx = ToolContext(task_id="t-1", state=State(InMemoryState()))
        slow = await ask(web, card(web.url), result({"task": task("WORKING")}), hang, ctx=ctx, timeout_s=timeout_s)
        if methods(web) == ["SendMessage", "GetTask"]:
            return ctx, slow
    raise AssertionError(f"it came no further than {methods(web)}")


def methods(web: Web) -> list[str]:
    return [seen.body["method"] for seen in web.seen if seen.body]


async def test_a_task_that_took_too_long_is_waited_for_by_the_next_call_which_sends_nothing(web: Web) -> None:
    ctx, slow = await given_up_while_it_waits(web)

    done = await ask(web, card(web.url), result(task("COMPLETED")), ctx=ctx)

    assert failed(slow) == ("TIMEOUT", None)
    assert done.output == {"state": "completed"}
    assert methods(web) == ["SendMessage", "GetTask", "GetTask"]


@pytest.mark.parametrize(
    "reply",
    [
        answer(200, "hello"),
        answer(200, "[1]"),
        answer(200, "[" * 100_000),
        answer(200, {"jsonrpc": "2.0"}),
        answer(404, {"detail": "not found"}),
        answer(302, "", location="http://127.0.0.1:1/steal"),
        result(None),
        result({}),
        result({"task": {"id": "r-1"}}),
        result({"task": task("DREAMING")}),
        result({"task": task("COMPLETED", artifacts=[{"parts": [{"raw": "???"}]}])}),
        result({"message": {"parts": [{}]}}),
    ],
)
async def test_an_answer_that_makes_no_sense_is_told_as_such(web: Web, reply: Reply) -> None:
    found = await ask(web, card(web.url), reply)

    assert failed(found) == ("UPSTREAM_FAILED", "REMOTE_MALFORMED")
    assert "cannot be understood" in str(found.output)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"url": "http://elsewhere.example/a2a"}, "not where its card is"),
        ({"url": "file:///etc/passwd"}, "not where its card is"),
        ({"protocolBinding": "GRPC"}, "does not speak A2A 1"),
        ({"protocolVersion": "0.3"}, "does not speak A2A 1"),
    ],
)
async def test_a_card_that_leads_elsewhere_gets_no_credentials(web: Web, changes: dict[str, str], words: str) -> None:
    found = await ask(web, card(web.url, **changes))

    assert failed(found) == ("UPSTREAM_FAILED", "REMOTE_MALFORMED")
    assert words in str(found.output)


async def test_another_host_is_asked_when_it_is_allowed(web: Web) -> None:
    with Web() as other:
        other.script[:] = [result({"message": {"parts": [{"text": "hi"}]}})]
        found = await ask(web, card(other.url), allow_hosts={"127.0.0.1"})

    assert found.output == {"state": "completed", "text": "hi"}
    assert other.seen[0].headers["x-key"] == "secret"
    assert other.seen[0].headers["a2a-version"] == "1.0"


async def test_an_answer_that_is_too_large_is_not_read_to_its_end(web: Web) -> None:
    found = await ask(web, card(web.url), drip, max_answer_bytes=20)

    assert failed(found) == ("UPSTREAM_FAILED", "REMOTE_TOO_LARGE")


async def test_a_refusal_is_told_in_the_words_of_the_remote(web: Web) -> None:
    refusal = {"jsonrpc": "2.0", "id": "1", "error": {"code": -32602, "message": "parts: too many"}}

    found = await ask(web, card(web.url), answer(200, refusal))

    assert failed(found) == ("UPSTREAM_FAILED", "REMOTE_REFUSED")
    assert (found.output, found.details["remote_code"]) == ("the agent 'far' refused: parts: too many", -32602)


async def test_a_remote_that_is_away_for_a_moment_is_asked_again_for_the_same_task(web: Web) -> None:
    asked = task("INPUT_REQUIRED")

    found = await ask(
        web, card(web.url), result({"task": task("WORKING")}), drop, answer(503, ""), result(asked), ctx=ToolContext()
    )

    assert not found.is_error
    assert str(found.output).count("needs something more") == 1


async def test_a_repetition_of_a_call_that_was_cut_off_has_the_same_key(web: Web) -> None:
    ctx = ToolContext(task_id="t-1", state=State(InMemoryState()))

    await ask(web, card(web.url), drop, ctx=ctx)
    await ask(web, card(web.url), result({"message": {"parts": [{"text": "hi"}]}}), ctx=ctx)
    await ask(web, card(web.url), result({"message": {"parts": [{"text": "hi"}]}}), ctx=ctx)

    keys = [seen.headers["idempotency-key"] for seen in web.seen if seen.body]
    assert keys[0] == keys[1] != keys[2]


def rpc_error(code: int) -> Reply:
    return answer(200, {"jsonrpc": "2.0", "id": "1", "error": {"code": code, "message": "no"}})


async def test_an_answer_that_had_arrived_after_all_is_not_lost(web: Web) -> None:
    ctx = ToolContext(task_id="t-1", state=State(InMemoryState()))
    await ask(web, card(web.url), result({"task": task("INPUT_REQUIRED")}), ctx=ctx)
    await ask(web, card(web.url), drop, ctx=ctx)

    done = await ask(web, card(web.url), rpc_error(-32004), result(task("WORKING")), result(task("COMPLETED")), ctx=ctx)

    assert done.output == {"state": "completed"}


async def test_a_task_that_the_remote_does_not_know_is_told_and_the_next_call_begins_anew(web: Web) -> None:
    ctx = ToolContext(task_id="t-1", state=State(InMemoryState()))
    await ask(web, card(web.url), result({"task": task("INPUT_REQUIRED")}), ctx=ctx)

    lost = await ask(web, card(web.url), rpc_error(-32001), rpc_error(-32001), ctx=ctx)
    await ask(web, card(web.url), result({"task": task("COMPLETED")}), ctx=ctx)

    assert failed(lost) == ("UPSTREAM_FAILED", "REMOTE_REFUSED")
    assert {"taskId", "contextId"} & set(web.seen[-1].body["params"]["message"]) == set()


async def test_a_packed_answer_is_not_unpacked(web: Web) -> None:
    packed = gzip.compress(b" " * 10_000_000)

    found = await ask(web, card(web.url), answer(200, packed, content_encoding="gzip"))

    assert failed(found) == ("UPSTREAM_FAILED", "REMOTE_MALFORMED")
    assert web.seen[-1].headers["accept-encoding"] == "identity"


async def test_parts_keep_their_labels_on_the_way_there_and_back(web: Web) -> None:
    said = Content.of(
        [
            TextPart(text="# Hi", mime="text/markdown", metadata={"lang": "en"}),
            DataPart(data=None, name="nothing.json"),
            FilePart(data=b"\xff\xfe", name="a.bin"),
            FilePart(uri="https://far.example/b.png", mime="image/png"),
        ]
    )

    def echo(handler: Handler) -> None:
        result({"message": handler.web.seen[-1].body["params"]["message"]})(handler)

    web.script[:] = [card(web.url), echo]
    answered = await remote(web.url).ask(ToolContext(), said)

    assert answered.message == said


async def test_artifacts_of_one_name_are_kept_apart(web: Web) -> None:
    made = [{"artifactId": str(n), "name": "page", "parts": [{"text": str(n)}]} for n in range(2)]

    found = await ask(web, card(web.url), result({"task": task("COMPLETED", artifacts=made)}))

    assert found.output == {
        "state": "completed",
        "artifacts": [{"name": "page", "text": "0"}, {"name": "page 2", "text": "1"}],
    }


@pytest.mark.parametrize("arguments", [{}, {"message": ""}, {"message": 5}, {"message": "a", "to": "b"}])
async def test_bad_arguments_are_told_before_anything_is_sent(arguments: dict[str, Any], web: Web) -> None:
    assert (await remote(web.url).call(arguments)).code == "INVALID_PARAMS"
    assert web.seen == []


async def test_an_agent_of_a_set_that_is_away_is_offered_all_the_same(web: Web) -> None:
    web.script[:] = [card(web.url)]

    tools = await A2aToolset({"near": web.url, "gone": f"http://127.0.0.1:{free_port()}"}).list_tools()

    assert [(one.name, one.description) for one in tools] == [("near", "far"), ("gone", "Asks the agent gone.")]
    with pytest.raises(RemoteUnavailable):
        await A2aAgentTool("http://127.0.0.1:1", name="a", description="b").read_card()


@pytest.mark.parametrize("address", ["far.example", "ftp://far.example", "http://"])
def test_an_address_must_be_one_of_http(address: str) -> None:
    with pytest.raises(ValueError, match="http or https"):
        remote(address)
