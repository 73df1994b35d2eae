import pytest
from examples.expenses.agent import Claim, ClaimExpense
from pydantic import BaseModel

from dragoman.kit import Event, Llm, LlmFunction, LlmRequest, TaskState, Thread, Usage
from dragoman.kit.testing import RecordingTool, ScriptedLlm, ScriptExhausted, call, run_skill

HELLO = LlmRequest(Thread.from_user("hi"))


class Point(BaseModel):
    x: int


async def test_a_script_gives_its_replies_in_order_and_remembers_what_was_asked() -> None:
    llm = ScriptedLlm("text", Point(x=1), call("t", a=1), [call("a"), call("b")], ValueError("down"))

    replies = [(await llm.generate(HELLO)).content for _ in range(4)]

    assert isinstance(llm, Llm)
    assert [reply.text for reply in replies[:2]] == ["text", '{"x": 1}']
    assert [one.name for reply in replies[2:] for one in reply.tool_calls] == ["t", "a", "b"]
    assert len({one.id for reply in replies for one in reply.tool_calls}) == 3
    with pytest.raises(ValueError, match="down"):
        await llm.generate(HELLO)
    assert llm.calls == [HELLO] * 5
    assert llm.remaining == 0


async def test_a_script_that_is_exhausted_is_an_error() -> None:
    llm = ScriptedLlm()

    with pytest.raises(ScriptExhausted):
        await llm.generate(HELLO)

    assert llm.exhausted


async def test_an_exhausted_script_is_an_error_also_where_the_runtime_would_hide_it() -> None:
    with pytest.raises(ScriptExhausted):
        await run_skill(ClaimExpense, "lunch", llm=ScriptedLlm())


async def test_plain_values_fit_any_output_type() -> None:
    assert await LlmFunction(ScriptedLlm(42), int).run("x") == 42
    assert await LlmFunction(ScriptedLlm(["a"]), list[str]).run("x") == ["a"]


async def test_a_recording_tool_remembers_its_calls() -> None:
    tool = RecordingTool("t", returns={"ok": True})

    result = await tool.call({"a": 1})

    assert result.output == {"ok": True}
    assert tool.calls == [{"a": 1}]


async def test_a_skill_is_tested_in_three_lines() -> None:
    llm = ScriptedLlm(Claim(what="lunch"))
    task = await run_skill(ClaimExpense, "lunch with the client", "42", llm=llm)
    assert (task.state, task.text, task.usage) == (TaskState.COMPLETED, "Claimed 42.00 euros.", Usage(10, 5, 1))

    assert llm.calls[0].thread.last == Event.user("lunch with the client")
