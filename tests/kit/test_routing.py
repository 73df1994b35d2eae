# ruff: noqa: ARG002 a handler takes its context and its content, also where it needs neither
from typing import Any

import pytest

from dragoman.kit import (
    Agent,
    Content,
    Context,
    How,
    LlmUnavailable,
    OpenAICompatible,
    Runtime,
    SkillHandler,
    TaskState,
    skill,
    tool,
)
from dragoman.kit._results import Completed, OnRequestResult
from dragoman.kit.testing import ScriptedLlm, runtime_of
from tests.kit.test_skill import Shop
from tests.kit.web import Web, hang


class Echoing(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        return Completed(f"{type(self).__name__}: {content.text}")


@skill(id="travel.book", name="Book a trip", description="Books trips.")
class Travel(Echoing):
    pass


@skill(id="expenses", description="Files expenses.")
class Expenses(Echoing):
    pass


async def test_an_explicit_call_goes_straight_to_the_tool() -> None:
    llm = ScriptedLlm()
    async with runtime_of(Travel, Shop, llm=llm) as runtime:
        task = await runtime.send({"tool": "buy", "arguments": {"what": "tea"}})

    assert (task.state, task.route, task.skill_id) == (TaskState.COMPLETED, How.TOOL, "shop")
    assert [artifact.content.data for artifact in task.artifacts] == [("bought tea",)]
    assert llm.calls == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ({"tool": "bui"}, "NOT_FOUND"),
        ({"tool": 5}, "INVALID_PARAMS"),
        ({"tool": "buy", "arguments": []}, "INVALID_PARAMS"),
        ({"tool": "buy", "arguments": {}}, "INVALID_PARAMS"),
    ],
)
async def test_a_bad_explicit_call_is_a_failed_task_with_a_code(call: dict[str, Any], code: str) -> None:
    async with runtime_of(Shop) as runtime:
        task = await runtime.send(call)

    assert task.state is TaskState.FAILED
    assert task.error is not None
    assert task.error.code == code


async def test_the_only_skill_gets_everything() -> None:
    async with runtime_of(Travel) as runtime:
        task = await runtime.send("hello")

    assert (task.text, task.route) == ("Travel: hello", How.ONLY)


@pytest.mark.parametrize("said", ["please book a trip to Rome", "travel.book Rome", "use Travel Book, please"])
async def test_a_clear_name_needs_no_model(said: str) -> None:
    llm = ScriptedLlm()
    async with runtime_of(Expenses, Travel, llm=llm) as runtime:
        task = await runtime.send(said)

    assert (task.text, task.route) == (f"Travel: {said}", How.NAME)
    assert llm.calls == []


async def test_otherwise_the_model_chooses_and_sees_descriptions_and_schemas_only() -> None:
    llm = ScriptedLlm({"skill_id": "travel.book", "question": None})
    async with runtime_of(Expenses, Travel, Shop, llm=llm) as runtime:
        task = await runtime.send("I need to be in Rome")

    assert (task.text, task.route) == ("Travel: I need to be in Rome", How.MODEL)
    system = llm.calls[0].thread.system or ""
    assert "Books trips." in system
    assert '"what"' in system
    assert task.usage.requests == 1


@pytest.mark.parametrize(
    "reply", [{"skill_id": None, "question": "Rome or Paris?"}, {"skill_id": "nope"}, LlmUnavailable("m", "down"), None]
)
async def test_when_neither_can_tell_the_caller_is_asked_and_the_first_message_is_not_lost(reply: Any) -> None:
    llm = None if reply is None else ScriptedLlm(reply)
    async with runtime_of(Expenses, Travel, llm=llm) as runtime:
        asked = await runtime.send("hmm")
        done = await runtime.send("Expenses", task_id=asked.id)

    assert (asked.state, asked.route) == (TaskState.INPUT_REQUIRED, How.ASK)
    assert asked.text
    assert (done.state, done.text, done.skill_id) == (TaskState.COMPLETED, "Expenses: hmm", "expenses")


async def test_an_answer_that_says_more_than_a_name_is_the_message() -> None:
    async with runtime_of(Expenses, Travel) as runtime:
        asked = await runtime.send("hmm")
        again = await runtime.send("what?", task_id=asked.id)
        done = await runtime.send("book a trip to Rome", task_id=asked.id)

    assert again.state is TaskState.INPUT_REQUIRED
    assert done.text == "Travel: book a trip to Rome"


async def test_a_model_that_hangs_does_not_hold_the_caller() -> None:
    with Web([hang]) as web:
        async with (
            OpenAICompatible(web.url, "small", timeout_s=0.1) as slow,
            Runtime(Agent("a", "An agent.", skills=[Expenses, Travel], router=slow)) as runtime,
        ):
            task = await runtime.send("hmm")

    assert (task.state, task.route) == (TaskState.INPUT_REQUIRED, How.ASK)


async def test_the_model_may_write_the_call_of_a_tool() -> None:
    router = ScriptedLlm({"skill_id": "shop", "tool": "buy", "arguments": '{"what": "tea"}'})
    async with Runtime(Agent("a", "An agent.", skills=[Travel, Shop], router=router)) as runtime:
        task = await runtime.send("we are out of tea")

    assert (task.state, task.route, task.usage.requests) == (TaskState.COMPLETED, How.MODEL, 1)
    assert [artifact.content.data for artifact in task.artifacts] == [("bought tea",)]


async def test_arguments_of_the_model_that_do_not_fit_are_asked_of_the_caller() -> None:
    router = ScriptedLlm({"tool": "buy", "arguments": "{}"}, {"tool": "buy", "arguments": '{"what": "tea"}'})
    async with Runtime(Agent("a", "An agent.", skills=[Travel, Shop], router=router)) as runtime:
        asked = await runtime.send("get me something")
        done = await runtime.send("tea", task_id=asked.id)

    assert (asked.state, asked.route) == (TaskState.INPUT_REQUIRED, How.ASK)
    assert "what" in asked.text
    assert done.state is TaskState.COMPLETED


@skill(id="bin", description="Throws things away.")
class Bin(Echoing):
    @tool(destructive=True)
    async def empty_bin(self) -> None:
        """Empty the bin."""
        raise AssertionError("nobody said so")


@pytest.mark.parametrize("arguments", ["{}", "[]", "{", None])
async def test_what_destroys_something_is_left_to_the_skill(arguments: str | None) -> None:
    router = ScriptedLlm({"skill_id": "bin", "tool": "empty_bin", "arguments": arguments})
    async with Runtime(Agent("a", "An agent.", skills=[Travel, Bin], router=router)) as runtime:
        task = await runtime.send("clean up")

    assert (task.text, task.route) == ("Bin: clean up", How.MODEL)
