# ruff: noqa: ARG002 a handler takes its context and its content, also where it needs neither
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from pydantic import BaseModel

from dragoman.errors import UpstreamUnavailable
from dragoman.kit import (
    Artifact,
    AuthRequired,
    Completed,
    Content,
    Context,
    Failed,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    Rejected,
    Reply,
    SkillHandler,
    SkillSlot,
    TaskState,
    skill,
    take_turn,
    tool,
)
from dragoman.kit.testing import agent_of, runtime_of
from tests.kit.test_content import JSON


class Field(StrEnum):
    AMOUNT = "amount"


class Bookmark(BaseModel):
    field: Field
    attempt: int


@given(JSON)
def test_a_slot_wraps_any_json_value(value: Any) -> None:
    assert SkillSlot(value).value == value
    assert SkillSlot(value) == SkillSlot(value)


def test_a_slot_can_be_matched_by_value_enum_and_pattern() -> None:
    matched: list[str] = []
    match SkillSlot(Field.AMOUNT):
        case SkillSlot("amount"):
            matched.append("pattern")
        case _:
            pass
    match SkillSlot(Field.AMOUNT).value:
        case Field.AMOUNT:
            matched.append("enum")
        case _:
            pass

    assert matched == ["pattern", "enum"]


def test_a_slot_gives_its_model_back() -> None:
    bookmark = Bookmark(field=Field.AMOUNT, attempt=2)

    assert SkillSlot(bookmark).read(Bookmark) == bookmark
    with pytest.raises(ValueError, match="not a Bookmark"):
        SkillSlot("x").read(Bookmark)


def test_completed_can_be_empty_or_full() -> None:
    note = Artifact.from_text("note", "hi")

    assert Completed() == Completed(None, [])
    assert Completed("done", [note]).message == Content.of("done")
    assert Completed("done", [note]).artifacts == (note,)


@pytest.mark.parametrize("slot", ["amount", None, 5])
def test_a_question_needs_a_real_slot(slot: Any) -> None:
    with pytest.raises(TypeError, match="a slot is a SkillSlot"):
        InputRequired("How much?", slot)


def test_ends_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a question"):
        InputRequired("  ", SkillSlot("x"))
    with pytest.raises(ValueError, match="needs an error"):
        Failed("")
    with pytest.raises(ValueError, match="needs a reason"):
        Rejected(" ")


def test_ends_of_the_wrong_type_are_refused() -> None:
    broken: Any = ValueError("x")
    with pytest.raises(TypeError, match="not ValueError"):
        Failed(broken)
    with pytest.raises(TypeError, match="an artifact is an Artifact, not dict"):
        Completed("done", [{"a": 1}])  # pyright: ignore[reportArgumentType] on purpose


def test_results_never_change() -> None:
    with pytest.raises(AttributeError):
        Failed("x").error = "y"  # pyright: ignore[reportAttributeAccessIssue] it is frozen


async def test_a_reply_ends_a_task_in_memory_with_its_message() -> None:
    @skill(id="greet", description="Greets.")
    class Greet(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return Reply(f"Hello, {ctx.metadata['name']}")

    async with runtime_of(Greet) as runtime:
        task = await runtime.send("hi", metadata={"name": "Ada"})

    assert (task.state, task.text, task.artifacts) == (TaskState.COMPLETED, "Hello, Ada", ())


async def test_an_authorization_is_waited_for_like_any_other_input() -> None:
    @skill(id="mail", description="Reads mail.")
    class Mail(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return AuthRequired("Sign in first")

        async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
            return Completed(str(ctx.slot.value))

    async with runtime_of(Mail) as runtime:
        asked = await runtime.send("any mail?")
        done = await runtime.send("I did", task_id=asked.id)

    assert (asked.state, asked.auth_required) == (TaskState.INPUT_REQUIRED, True)
    assert (done.text, done.auth_required) == ("auth", False)


async def test_a_question_is_never_answered_by_a_reply() -> None:
    @skill(id="odd", description="Is odd.")
    class Odd(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return InputRequired("well?", SkillSlot("well"))

        async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
            return Reply("no")  # pyright: ignore[reportReturnType] what is tested

    async with runtime_of(Odd) as runtime:
        asked = await runtime.send("?")
        done = await runtime.send("!", task_id=asked.id)

    assert done.state is TaskState.FAILED


async def test_a_failed_turn_says_which_error_ended_it() -> None:
    """A host that knows the error knows whether to try again, and when."""
    away = UpstreamUnavailable("the bank", retry_after_s=17)

    @tool
    async def balance() -> int:
        """Look at the account."""
        raise away

    @skill(id="bank", description="Asks the bank.")
    class Bank(SkillHandler):
        tools = (balance,)

        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            raise away

    turns = [
        await take_turn(agent_of(Bank), Context("t", "c"), Content.of(said))
        for said in ("how much?", {"tool": "balance", "arguments": {}})
    ]

    for turn in turns:
        assert isinstance(turn.result, Failed)
        assert (turn.result.cause, turn.result.code) == (away, "UPSTREAM_UNAVAILABLE")
