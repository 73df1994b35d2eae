# ruff: noqa: ARG002 a handler takes its context and its content, also where it needs neither
from typing import Any

import pytest

from dragoman.kit import Content, Context, How, LlmUnavailable, SkillHandler, TaskState, skill
from dragoman.kit._results import Completed, OnRequestResult
from dragoman.kit.testing import ScriptedLlm, runtime_of
from tests.kit.test_skill import Shop


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
