import datetime as dt
import logging
import threading
from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from dragoman.errors import Conflict
from dragoman.kit import Annotations, Tool, ToolContext, ToolError, ToolResult, tool


class Unit(StrEnum):
    KILO = "kg"


class Parcel(BaseModel):
    weight: int


Town = Annotated[str, Field(description="A town.", min_length=2)]


@tool
async def send(parcel: Parcel, to: Town, unit: Unit = Unit.KILO) -> str:
    """Send a parcel."""
    return f"{parcel.weight} {unit} to {to}"


def test_the_schema_comes_from_the_signature() -> None:
    assert send.name == "send"
    assert send.description == "Send a parcel."
    assert send.input_schema["required"] == ["parcel", "to"]
    assert send.input_schema["properties"]["to"] == {
        "description": "A town.",
        "minLength": 2,
        "title": "To",
        "type": "string",
    }
    assert send.input_schema["additionalProperties"] is False


async def test_arguments_arrive_as_their_types() -> None:
    result = await send.call({"parcel": {"weight": 3}, "to": "Bonn", "unit": "kg"})

    assert result == ToolResult("3 kg to Bonn")


async def test_bad_arguments_are_a_readable_error_that_names_all_of_them() -> None:
    result = await send.call({"parcel": {"weight": "3"}, "wheels": 4})

    assert result.is_error
    assert result.code == "INVALID_PARAMS"
    errors: Any = result.details["errors"]
    assert {error["field"] for error in errors} == {"parcel.weight", "to", "wheels"}


async def test_json_rules_hold_so_that_a_date_is_text() -> None:
    @tool("Tell the day.")
    async def day(when: dt.date) -> int:
        return when.day

    assert (await day.call({"when": "2026-11-15"})).output == 15
    assert (await day.call({"when": 15})).is_error


async def test_arguments_may_have_any_name_and_default() -> None:
    @tool("Say it.")
    async def say(json: str, copy: int = 2, schema: Annotated[str, Field(description="A word.")] = "x") -> str:
        return f"{json}{copy}{schema}"

    assert list(say.input_schema["properties"]) == ["json", "copy", "schema"]
    assert say.input_schema["properties"]["schema"]["description"] == "A word."
    assert say.input_schema["properties"]["copy"]["default"] == 2
    assert (await say.call({"json": "a"})).output == "a2x"
    assert (await say.call({"json": "a", "schema": "b"})).output == "a2b"
    assert "copy: Input should be a valid integer" in str((await say.call({"json": "a", "copy": "b"})).output)


async def test_details_that_json_cannot_say_are_told_in_words() -> None:
    @tool("Fail.")
    async def fail() -> None:
        raise Conflict("taken", by=object)

    assert (await fail.call({})).details == {"by": "<class 'object'>"}


async def test_a_context_is_injected_and_hidden_from_the_model() -> None:
    @tool("Who asks?")
    async def who(ctx: ToolContext, greeting: str = "hi") -> str:
        await ctx.state.task().save("seen", greeting)
        return f"{greeting} {ctx.task_id}"

    ctx = ToolContext(task_id="t1")

    assert list(who.input_schema["properties"]) == ["greeting"]
    assert (await who.call({}, ctx)).output == "hi t1"
    assert await ctx.state.task().load("seen", str) == "hi"


async def test_a_plain_function_runs_in_a_thread() -> None:
    @tool("Where am I?")
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await where.call({})).output is False


async def test_an_unknown_exception_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    @tool("Fail.")
    async def fail() -> None:
        raise RuntimeError("password=hunter2")

    with caplog.at_level(logging.ERROR):
        result = await fail.call({})

    assert result == ToolResult.error("the tool fail failed", "INTERNAL_ERROR")
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolError("no such town"), ToolResult.error("no such town")),
        (Conflict("taken", slug="x"), ToolResult.error("taken", "CONFLICT", {"slug": "x"})),
    ],
)
async def test_errors_that_were_written_for_others_are_told(error: Exception, told: ToolResult) -> None:
    @tool("Fail.")
    async def fail() -> None:
        raise error

    assert await fail.call({}) == told


def test_a_tool_is_still_the_function_it_was() -> None:
    @tool(name="add_up")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    assert add(1, 2) == 3
    assert add.name == "add_up"
    assert repr(add) == "Tool('add_up')"


async def test_a_method_is_bound_to_its_object() -> None:
    class Shop:
        def __init__(self, price: int) -> None:
            self._price = price

        @tool("The price of some.", read_only=True)
        async def price(self, count: int) -> int:
            return self._price * count

    assert isinstance(Shop.price, Tool)
    assert (await Shop(2).price.call({"count": 3})).output == 6
    assert Shop(2).price.annotations == Annotations(read_only=True, idempotent=True)


def test_a_tool_that_a_model_cannot_use_is_refused_when_it_is_written() -> None:
    def untyped(a) -> None:  # noqa: ANN001 # pyright: ignore[reportMissingParameterType] on purpose
        """Do."""

    def rest(*args: int) -> None:
        """Do."""

    def silent(a: int) -> None: ...

    with pytest.raises(TypeError, match="'a' needs a type"):
        tool(untyped)
    with pytest.raises(TypeError, match="by name"):
        tool(rest)
    with pytest.raises(TypeError, match="needs a description"):
        tool(silent)
    with pytest.raises(TypeError, match="read_only or destructive"):
        tool("x", read_only=True, destructive=True)
    with pytest.raises(ValueError, match="tool name"):
        tool("x", name="a b")(silent)
