"""What the agent has to read, and ways of asking it."""

from typing import Annotated, Final

from examples.everything.showing import PIXEL
from pydantic import Field

from dragoman.kit import Content, ContentLike, FilePart, Prompt, Resource, TextPart, prompt, resource


@resource("test://static-text")
async def static_text() -> str:
    """Always the same text."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime="image/png")
async def static_binary() -> bytes:
    """Always the same picture."""
    return PIXEL


@resource("test://watched-resource")
async def watched_resource() -> str:
    """Something to keep an eye on."""
    return "Nothing has happened yet."


@resource("test://template/{id}/data", mime="application/json")
async def template_data(id: str) -> dict[str, object]:  # noqa: A002 - the word of the address
    """One for every id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@prompt
async def test_simple_prompt() -> str:
    """A plain prompt."""
    return "This is a simple prompt for testing."


@prompt
async def test_prompt_with_arguments(
    arg1: Annotated[str, Field(description="First test argument")],
    arg2: Annotated[str, Field(description="Second test argument")],
) -> str:
    """A prompt with two words in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt
async def test_prompt_with_embedded_resource(
    resourceUri: Annotated[str, Field(description="What to embed")],  # noqa: N803 - the kit calls it so
) -> ContentLike:
    """A prompt with a text to read."""
    text = FilePart(name=resourceUri, mime="text/plain", data=b"Embedded resource content for testing.")
    return Content(parts=(text, TextPart(text="Please process the embedded resource above.")))


@prompt
async def test_prompt_with_image() -> ContentLike:
    """A prompt with a picture to look at."""
    image = FilePart(name="pixel.png", mime="image/png", data=PIXEL)
    return Content(parts=(image, TextPart(text="Please analyze the image above.")))


@prompt
async def test_input_required_result_prompt(
    context: Annotated[str, Field(description="What context should the prompt use?")],
) -> str:
    """A prompt that asks for what it lacks."""
    return f"In this context: {context}"


RESOURCES: Final[tuple[Resource, ...]] = (static_text, static_binary, watched_resource, template_data)
PROMPTS: Final[tuple[Prompt, ...]] = (
    test_simple_prompt,
    test_prompt_with_arguments,
    test_prompt_with_embedded_resource,
    test_prompt_with_image,
    test_input_required_result_prompt,
)
