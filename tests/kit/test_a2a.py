"""Another agent as a tool, against a real server with the conformance agent."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.kit import (
    Agent,
    InMemoryState,
    InMemoryTasks,
    LlmWorker,
    RemoteAsks,
    Runtime,
    State,
    TaskState,
    ToolContext,
)
from dragoman.kit.testing import ScriptedLlm, call
from dragoman.kit.toolsets import A2aAgentTool, A2aToolset
from tests.doors.a2a.calling import A2A, CONFORMANCE, state, text
from tests.harness import Process, Server, wait_for
from tests.kit.forwarding import Forward
from tests.kit.web import free_port
from tests.tenants import new_tenant

ROOT = Path(__file__).parents[2]
AT_ONCE = {"returnImmediately": True}
AGENTS = {"PYTHONPATH": f"{ROOT / 'examples' / 'conformance'}:{ROOT}:{ROOT / 'src'}"}


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    with Process(CONFORMANCE | AGENTS | {"DRAGOMAN_PORT": str(free_port())}) as running:
        yield running


@pytest.fixture
def tenant(served: Server) -> str:
    return new_tenant(served)


@pytest.fixture
def there(served: Server, tenant: str) -> Iterator[A2A]:
    yield A2A(served, tenant=tenant)
    while A2A.opened:
        A2A.opened.pop().close()


@pytest.fixture
def options(served: Server, tenant: str) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {served.token(tenant=tenant)}"}
    return {"card_url": served.url, "name": "remote", "description": "Does it all.", "headers": headers}


@pytest.fixture
def remote(options: dict[str, Any]) -> A2aAgentTool:
    return A2aAgentTool(**options)


def in_task(name: str = "t-1", session: dict[str, Any] | None = None) -> ToolContext:
    return ToolContext(task_id=name, context_id="c-1", state=State(InMemoryState({}, session)))


def tasks_of(there: A2A) -> list[dict[str, Any]]:
    return there.call("ListTasks", {"includeArtifacts": True})["tasks"]


async def test_a_worker_asks_and_is_told_text_data_and_artifacts(served: Server, options: dict[str, Any]) -> None:
    agents = A2aToolset({"remote": served.url}, headers=options["headers"])
    llm = ScriptedLlm(call("remote", message="tck-artifact-data"), call("remote", message="tck-artifact-file"), "ok")

    _, thread = await LlmWorker(llm, str, tools=[agents], context=in_task()).run_and_continue("Go.")

    assert [part.output for event in thread for part in event.content.tool_responses] == [
        {"state": "completed", "artifacts": [{"name": "data", "data": [{"key": "value", "count": 42}]}]},
        {
            "state": "completed",
            "artifacts": [
                {"name": "output.txt", "files": [{"name": "output.txt", "mime": "text/plain", "size_bytes": 23}]}
            ],
        },
    ]
    [spec] = llm.calls[0].tools
    assert "Does what the prefix of a message says" in spec.description


async def test_a_question_is_told_and_the_next_call_in_the_task_is_its_answer(remote: A2aAgentTool, there: A2A) -> None:
    ctx = in_task()

    asked = await remote.call({"message": "tck-multi-turn hello"}, ctx)
    done = await remote.call({"message": "done", "data": {"by": "us"}}, ctx)
    anew = await remote.call({"message": "tck-artifact-text"}, ctx)

    assert (asked.is_error, asked.output["state"], asked.output["question"]) == (False, "input_required", "What else?")  # pyright: ignore[reportArgumentType, reportCallIssue, reportOptionalSubscript, reportIndexIssue] JSON
    assert done.output == {
        "state": "completed",
        "text": "Thank you.",
        "artifacts": [{"name": "talk", "data": [{"first": "tck-multi-turn hello", "last": "done"}]}],
    }
    assert not anew.is_error
    assert len(tasks_of(there)) == 2


async def test_who_does_not_want_to_answer_starts_over(remote: A2aAgentTool, there: A2A) -> None:
    ctx = in_task()
    await remote.ask(ctx, "tck-multi-turn")

    other = await remote.ask(ctx, "tck-artifact-text", start_over=True)

    assert other.artifacts[0].content.text == "Generated text content"
    assert sorted(map(state, tasks_of(there))) == ["CANCELED", "COMPLETED"]


async def test_the_remote_conversation_lasts_as_long_as_the_local_one(remote: A2aAgentTool) -> None:
    session: dict[str, Any] = {}

    answers = [await remote.ask(in_task(f"t-{n}", session), "hello") for n in range(2)]
    elsewhere = await remote.ask(in_task("t-3"), "hello")

    assert answers[0].context_id == answers[1].context_id != elsewhere.context_id
    assert answers[0].task_id != answers[1].task_id


async def test_a_skill_forwards_question_and_answer_and_another_process_could_go_on(options: dict[str, Any]) -> None:
    tasks = InMemoryTasks()
    async with Runtime(Agent("a", "b", skills=[Forward(A2aAgentTool(**options))]), tasks=tasks) as runtime:
        asked = await runtime.send("tck-multi-turn hello")
    async with Runtime(Agent("a", "b", skills=[Forward(A2aAgentTool(**options))]), tasks=tasks) as runtime:
        again = await runtime.send("not yet", task_id=asked.id)
        done = await runtime.send("done", task_id=asked.id)

    assert [(task.state, task.text) for task in (asked, again)] == [
        (TaskState.INPUT_REQUIRED, "What else?"),
        (TaskState.INPUT_REQUIRED, "And what else?"),
    ]
    assert (done.state, done.text) == (TaskState.COMPLETED, "Thank you.")
    assert done.artifacts[0].content.data == ({"first": "tck-multi-turn hello", "last": "done"},)


async def test_a_sign_in_that_the_remote_needs_is_asked_on_as_one(options: dict[str, Any]) -> None:
    async with Runtime(Agent("a", "b", skills=[Forward(A2aAgentTool(**options))])) as runtime:
        asked = await runtime.send("tck-auth-required")
        done = await runtime.send("done", task_id=asked.id)

    assert (asked.state, asked.auth_required) == (TaskState.INPUT_REQUIRED, True)
    assert done.state is TaskState.COMPLETED


@pytest.mark.parametrize(
    ("said", "reason", "words"),
    [
        ("tck-task-failure", "REMOTE_FAILED", "failed: the task failed as it was asked to"),
        ("tck-reject", "REMOTE_REJECTED", "rejected"),
        ("tck-auth-required", "REMOTE_AUTH_REQUIRED", "Please sign in"),
    ],
)
async def test_a_bad_end_is_an_error_with_a_code_and_the_words_of_the_other(
    remote: A2aAgentTool, said: str, reason: str, words: str
) -> None:
    result = await remote.call({"message": said}, in_task())

    assert (result.is_error, result.code, result.details["reason"]) == (True, "UPSTREAM_FAILED", reason)
    assert words in str(result.output)


async def test_wrong_credentials_are_told_without_showing_them(options: dict[str, Any]) -> None:
    options["headers"] = {"authorization": "Bearer secret-of-ours"}
    remote = A2aAgentTool(**options)

    result = await remote.call({"message": "hello"}, in_task())

    assert (result.code, result.details) == ("UPSTREAM_FAILED", {"reason": "REMOTE_REFUSED", "status": 401})
    assert "secret-of-ours" not in str(result)


async def test_a_call_beside_one_that_is_asked_something_is_not_taken_for_the_answer(remote: A2aAgentTool) -> None:
    ctx = in_task()

    both = await asyncio.gather(
        remote.ask(ctx, "tck-multi-turn one"), remote.ask(ctx, "tck-multi-turn two"), return_exceptions=True
    )

    assert [type(one).__name__ for one in both] == ["RemoteAnswer", RemoteAsks.__name__]


async def test_a_task_that_somebody_ended_there_is_told_and_forgotten(remote: A2aAgentTool, there: A2A) -> None:
    ctx = in_task()
    asked = await remote.ask(ctx, "tck-multi-turn")
    there.call("CancelTask", {"id": asked.task_id})

    refused = await remote.call({"message": "done"}, ctx)
    anew = await remote.call({"message": "tck-artifact-text"}, ctx)

    assert (refused.code, refused.details["reason"]) == ("UPSTREAM_FAILED", "REMOTE_CANCELLED")
    assert not anew.is_error


async def test_when_the_task_is_cancelled_so_is_the_one_of_the_remote(options: dict[str, Any], there: A2A) -> None:
    async with Runtime(Agent("a", "b", skills=[Forward(A2aAgentTool(**options))])) as runtime:
        task = await runtime.start("tck-cancel")
        await asyncio.to_thread(wait_for, lambda: tasks_of(there), "the task of the remote")
        await runtime.cancel(task.id)

    assert list(map(state, tasks_of(there))) == ["CANCELED"]


def test_both_servers_are_restarted_while_one_waits_for_the_other(served: Server, tenant: str, there: A2A) -> None:
    calling = AGENTS | {"REMOTE_URL": served.url, "REMOTE_TOKEN": served.token(tenant=tenant)}
    with Process(calling | {"DRAGOMAN_AGENT": "tests.kit.remote_caller:agent"}) as local:
        here = A2A(local)
        asked = here.send(text("tck-multi-turn before"))
        busy = here.send(text("tck-long-running seconds=2", configuration=AT_ONCE))
        doomed = here.send(text("tck-cancel", configuration=AT_ONCE))
        wait_for(lambda: len(tasks_of(there)) == 3, "the tasks of the remote")
        here.call("CancelTask", {"id": doomed["id"]})
        wait_for(lambda: "CANCELED" in map(state, tasks_of(there)), "the end of the remote's task")

        for server in (local, served):
            server.stop()
        for server in (served, local):
            server.start()
        here = A2A(local)
        done = here.send(text("done", taskId=asked["id"]))
        wait_for(lambda: state(here.get(busy["id"])) == "COMPLETED", "the end of what was interrupted")

    assert state(asked) == "INPUT_REQUIRED"
    assert state(done) == "COMPLETED"
    assert done["artifacts"][0]["parts"] == [{"data": {"first": "tck-multi-turn before", "last": "done"}}]
    assert sorted(map(state, tasks_of(there))) == ["CANCELED", "COMPLETED", "COMPLETED"]
