# ruff: noqa: ARG002 a handler takes its context and its content, also where it needs neither
import logging
from typing import Any

import pytest

from dragoman.errors import Forbidden
from dragoman.kit import (
    Completed,
    Content,
    Context,
    Failed,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    Rejected,
    Skill,
    SkillHandler,
    SkillSlot,
    TaskState,
    skill,
    tool,
)
from dragoman.kit.testing import RecordingTool, ScriptedLlm, call, run_skill

HELLO = Content.of("hello")


@skill(id="echo", description="Say it again.")
class Echo(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        return Completed(content)


def test_a_skill_is_described_with_sensible_defaults() -> None:
    made = Skill.of(Echo)

    assert (made.id, made.info.name, made.info.description) == ("echo", "Echo", "Say it again.")
    assert made.info.input_modes == ("text/plain", "application/json")


@pytest.mark.parametrize("wrong", ["", "Has Blanks", "UPPER", "a..b", "ünï"])
def test_a_malformed_id_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="skill id"):
        skill(id=wrong, description="x")


def test_a_near_miss_is_met_with_a_hint() -> None:
    with pytest.raises(ValueError, match="did you mean 'has-blanks'"):
        skill(id="Has Blanks", description="x")
    with pytest.raises(ValueError, match="did you mean 'text/plain'"):
        skill(id="a", description="x", input_modes=["text/plian"])
    with pytest.raises(ValueError, match="did you mean 'application/json'"):
        skill(id="a", description="x", output_modes=["json"])


@pytest.mark.parametrize("mode", ["application/vnd.ms-excel", "text/x-python", "image/*", "model/gltf+json"])
def test_types_that_are_rare_but_right_are_taken(mode: str) -> None:
    @skill(id="a", description="x", input_modes=[mode])
    class Reader(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return Completed(content)

    assert list(Skill.of(Reader).info.input_modes) == [mode]


def test_a_skill_that_can_do_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="declares no tools and does not implement on_request"):

        @skill(id="idle", description="Nothing.")
        class Idle(SkillHandler):  # pyright: ignore[reportUnusedClass] it never comes to be
            pass

    with pytest.raises(TypeError, match="is no skill"):
        Skill.of(object())


def test_hooks_that_would_never_run_are_refused() -> None:
    class Stray:
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return Completed()

    class Sync(SkillHandler):
        def on_request(self, ctx: Context, content: Content) -> OnRequestResult:  # pyright: ignore[reportIncompatibleMethodOverride] on purpose
            return Completed()

    with pytest.raises(TypeError, match="must be a SkillHandler"):
        skill(id="stray", description="x")(Stray)
    with pytest.raises(TypeError, match="must be async"):
        skill(id="sync", description="x")(Sync)


@pytest.mark.parametrize("wrong", [None, "done", True, Completed, {"state": "completed"}])
async def test_a_handler_that_returns_something_else_fails_and_says_so_in_the_log(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @skill(id="odd", description="Odd.")
    class Odd(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return wrong

    with caplog.at_level(logging.ERROR):
        result = await Skill.of(Odd).run(Context("t", "c"), HELLO)

    assert result == Failed("the skill failed; the log says why", "INTERNAL_ERROR")
    assert "odd.on_request must return one of Completed, InputRequired, Failed, Rejected" in caplog.text


async def test_an_answer_cannot_be_rejected() -> None:
    @skill(id="late", description="Late.")
    class Late(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return Rejected("no")

        async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
            return Rejected("too late")  # pyright: ignore[reportReturnType] on purpose

    made = Skill.of(Late)

    assert await made.run(Context("t", "c"), HELLO) == Rejected("no")
    assert isinstance(await made.run(Context("t", "c", slot=SkillSlot("x")), HELLO), Failed)


async def test_a_question_that_nobody_would_hear_the_answer_of_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    @skill(id="deaf", description="Deaf.")
    class Deaf(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return InputRequired("how much?", SkillSlot("x"))

    assert isinstance(await Skill.of(Deaf).run(Context("t", "c"), HELLO), Failed)
    assert "does not implement on_input_received" in caplog.text


async def test_an_exception_becomes_a_failure_that_leaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    @skill(id="bad", description="Bad.")
    class Bad(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            raise Forbidden("not you", need="costs") if content.text == "known" else RuntimeError("password=hunter2")

    unknown = await Skill.of(Bad).run(Context("t", "c"), HELLO)
    known = await Skill.of(Bad).run(Context("t", "c"), Content.of("known"))

    assert unknown == Failed("the skill failed; the log says why", "INTERNAL_ERROR")
    assert known == Failed("not you", "UNAUTHORIZED", {"need": "costs"})
    assert "hunter2" in caplog.text


@skill(id="shop", description="Buys things.")
class Shop:
    tools = [RecordingTool("price", 3)]

    @tool("Buy it.")
    async def buy(self, what: str) -> str:
        return f"bought {what}"


def test_a_class_that_only_has_tools_is_a_skill() -> None:
    assert [one.name for one in Skill.of(Shop).tools] == ["price", "buy"]
    assert [one.name for one in Skill.of(Shop()).tools] == ["price", "buy"]


async def test_free_text_to_tools_is_worked_on_by_the_model() -> None:
    llm = ScriptedLlm(call("buy", what="tea"), {"status": "complete", "message": "You have tea."})

    task = await run_skill(Shop, "get me tea", llm=llm)

    assert (task.state, task.text) == (TaskState.COMPLETED, "You have tea.")
    assert llm.calls[1].thread[-1].content.tool_responses[0].output == "bought tea"


async def test_the_model_can_ask_and_goes_on_with_its_own_conversation() -> None:
    llm = ScriptedLlm(
        call("price"),
        {"status": "needs_input", "message": "Which tea?"},
        {"status": "failed", "message": "There is no green tea."},
    )

    asked = await run_skill(Shop, "get me tea", "green", llm=llm)

    assert (asked.state, asked.text) == (TaskState.FAILED, "There is no green tea.")
    assert [event.role for event in llm.calls[2].thread] == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_free_text_to_tools_without_a_model_says_how_to_use_them() -> None:
    task = await run_skill(Shop, "get me tea")

    assert task.state is TaskState.REJECTED
    assert "price, buy" in task.text
