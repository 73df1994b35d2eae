"""What an agent offers besides skills: resources to read, prompts to choose from, and tools that are there at times."""

from typing import Annotated

import pytest
from pydantic import Field

from dragoman.context import Caller
from dragoman.errors import InvalidInput
from dragoman.kit import (
    Agent,
    Content,
    Event,
    FilePart,
    ResourceNotFound,
    TextPart,
    ToolResult,
    prompt,
    resource,
    skill,
    tool,
)
from dragoman.kit.testing import run_skill


@resource("notes://{day}/{name}", mime="application/json")
async def note(name: str, day: str, caller: Caller) -> dict[str, str | None]:
    """A note of a day."""
    return {"name": name, "day": day, "for": caller and caller.subject}


@resource("notes://today")
def today() -> bytes:
    """All of today."""
    return b"\x00"


@prompt
async def summarise(day: Annotated[str, Field(description="Which day.")], style: str = "short") -> list[Event]:
    """Summarise a day."""
    return [Event.user(f"Summarise {day}, {style}."), Event.assistant("I begin.")]


@skill(id="notes", description="Keeps notes.")
class Notes:
    @tool
    async def draw(self) -> Content:
        """Draw a note."""
        return Content(parts=(TextPart(text="here"), FilePart(name="a.png", mime="image/png", data=b"12")))

    @tool(offered=lambda caller: caller is not None, needs=["task"])
    async def secret(self) -> str:
        """For those who are known."""
        return "hush"


async def test_a_template_gives_its_function_what_stands_in_its_places() -> None:
    read = await note.read("notes://monday/a%20b")

    assert (read.mime, read.data) == ("application/json", '{"name": "a b", "day": "monday", "for": null}')
    assert (note.is_template, today.is_template) == (True, False)
    assert (await today.read("notes://today")).base64 == "AA=="


@pytest.mark.parametrize("uri", ["notes://monday", "notes://a/b/c", "notes://a/", "other://a/b", ""])
async def test_another_address_is_not_found(uri: str) -> None:
    assert not note.has(uri)
    with pytest.raises(ResourceNotFound):
        await note.read(uri)


def test_a_function_must_take_what_its_address_names() -> None:
    with pytest.raises(TypeError, match="must take just the names"):
        resource("notes://{day}")(lambda: "")
    with pytest.raises(ValueError, match="is no address"):
        resource("today")(lambda: "")


async def test_a_prompt_knows_its_arguments_and_makes_a_conversation() -> None:
    thread = await summarise.fill({"day": "Monday"})

    assert [(one.name, one.required) for one in summarise.arguments] == [("day", True), ("style", False)]
    assert [(event.role, event.text) for event in thread] == [
        ("user", "Summarise Monday, short."),
        ("assistant", "I begin."),
    ]
    assert [one.name for one in summarise.missing({"style": "long"})] == ["day"]
    with pytest.raises(InvalidInput):
        await summarise.fill({"night": "Monday"})


def test_a_prompt_takes_texts_alone_and_needs_a_description() -> None:
    async def count(number: int) -> str:
        """Count."""
        return str(number)

    async def silent() -> str:
        return ""

    with pytest.raises(TypeError, match="each must be a str"):
        prompt(count)
    with pytest.raises(TypeError, match="needs a description"):
        prompt(silent)


def test_an_agent_keeps_what_it_offers_and_refuses_two_of_one_name() -> None:
    agent = Agent("notes", "Keeps notes.", skills=[Notes], offers=[note, today, summarise])

    assert (agent.resources, agent.prompts) == ((note, today), (summarise,))
    assert agent.with_skills([]).resources == agent.resources
    with pytest.raises(ValueError, match="have one name"):
        Agent("notes", "Keeps notes.", skills=[Notes], offers=[note, note])


async def test_the_content_of_a_tool_is_an_artifact_as_it_is_and_a_model_is_told_of_it() -> None:
    task = await run_skill(Notes, {"tool": "draw"})
    told = ToolResult.success(FilePart(name="a.png", mime="image/png", data=b"12"))

    assert [part.kind for part in task.artifacts[0].content.parts] == ["text", "file"]
    assert told.output == [{"file": "a.png", "mime": "image/png", "size_bytes": 2}]


async def test_a_tool_that_is_not_offered_to_its_caller_does_not_run() -> None:
    task = await run_skill(Notes, {"tool": "secret"})

    assert task.error is not None
    assert task.error.code == "UNAUTHORIZED"
    assert Notes().secret.needs == frozenset({"task"})
