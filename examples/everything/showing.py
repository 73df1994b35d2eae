"""Tools that give every kind of content, tell how far they are, and fail."""

import asyncio
import base64
from typing import Annotated, Any, Final

from pydantic import Field

from dragoman.kit import Content, FilePart, TextPart, Tool, ToolContext, ToolError, ToolResult, skill, tool

# One red pixel, and a moment of silence.
PIXEL: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
_SILENCE: Final = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
_IMAGE: Final = FilePart(name="pixel.png", mime="image/png", data=PIXEL)
_ADDRESS: Final[dict[str, Any]] = {
    "$anchor": "addressDef",
    "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
}
_CONTACT: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": _ADDRESS},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


async def _know(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    del ctx
    return ToolResult.success({"known": sorted(arguments)})


# Its schema is written by hand, to see it arrive just so.
contact: Final = Tool("json_schema_2020_12_tool", "Take a contact.", _CONTACT, _know)


@skill(id="showing", description="Shows every kind of content.")
class Showing:
    """Has nothing to say, and much to show."""

    tools = (contact,)

    @tool(read_only=True)
    async def test_simple_text(self) -> str:
        """Give a line of text."""
        return "This is a simple text response for testing."

    @tool(read_only=True)
    async def test_image_content(self) -> FilePart:
        """Give a picture."""
        return _IMAGE

    @tool(read_only=True)
    async def test_audio_content(self) -> FilePart:
        """Give a sound."""
        return FilePart(name="silence.wav", mime="audio/wav", data=_SILENCE)

    @tool(read_only=True)
    async def test_embedded_resource(self) -> FilePart:
        """Give a text with an address of its own."""
        return FilePart(name="embedded.txt", mime="text/plain", data=b"This is an embedded resource content.")

    @tool(read_only=True)
    async def test_multiple_content_types(self) -> Content:
        """Give several things at once."""
        numbers = FilePart(name="numbers.json", mime="application/json", data=b'{"test": "data", "value": 123}')
        return Content(parts=(TextPart(text="Multiple content types test:"), _IMAGE, numbers))

    @tool(read_only=True)
    async def test_error_handling(self) -> str:
        """Fail, in words."""
        raise ToolError("This tool intentionally returns an error for testing")

    @tool(read_only=True)
    async def test_tool_with_progress(self, ctx: ToolContext) -> str:
        """Say three times how far it is."""
        for percent in (0, 50, 100):
            await ctx.progress.update(f"{percent} of 100", percent)
            await asyncio.sleep(0.05)
        return "Done, and said so on the way."

    @tool(read_only=True)
    async def test_tool_with_logging(self, ctx: ToolContext) -> str:
        """Say three times what it does."""
        for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.progress.log(line)
            await asyncio.sleep(0.05)
        return "Done, and logged on the way."

    @tool(read_only=True)
    async def test_logging_tool(self, ctx: ToolContext) -> str:
        """Say one thing quietly, and one loudly."""
        await ctx.progress.log("Looking", "debug")
        await ctx.progress.log("Found nothing", "warning")
        return "Whoever asked for a log has seen one."

    @tool(read_only=True)
    async def test_mirrored_argument(
        self, region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]
    ) -> str:
        """Take an argument that proxies may read in a header."""
        return f"In {region}."
