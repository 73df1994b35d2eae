"""Tools that cannot go on without an answer: of a person, of the caller's model, or of the caller itself."""

from typing import Final, Literal

from pydantic import BaseModel, Field, JsonValue

from dragoman.kit import (
    Completed,
    Content,
    Context,
    Failed,
    Folders,
    Form,
    Generation,
    InputRequired,
    OnInputResult,
    Question,
    SkillHandler,
    SkillSlot,
    ToolResult,
    skill,
    tool,
)


class Name(BaseModel):
    """Who it is."""

    name: str


class Consent(BaseModel):
    """Whether somebody agrees."""

    ok: bool


class Colour(BaseModel):
    """What somebody likes."""

    color: str


class Contact(BaseModel):
    """Who it is, and how to reach them."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Member(BaseModel):
    """Fields of every kind, each filled in already."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


class Deletion(BaseModel):
    """Whether a file may go."""

    confirm: bool


_NAME: Final = Form.of("What is your name?", Name)
_CONSENT: Final = Form.of("Please confirm", Consent)
_CAPITAL: Final = Generation(message="What is the capital of France?", max_tokens=100)
_GREETING: Final = Generation(message="Generate a greeting", max_tokens=50)
_PLAIN: Final[JsonValue] = ["option1", "option2", "option3"]
_TITLED: Final[JsonValue] = [
    {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)
]
# Every way in which a schema can offer a choice, the oldest among them.
_CHOICES: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _PLAIN},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _PLAIN}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}
_ALL: Final[dict[str, Question]] = {"user_name": _NAME, "greeting": _GREETING, "client_roots": Folders()}


def ask(slot: str, **asks: Question) -> ToolResult:
    """A result that is a question."""
    said = "\n".join(one.message for one in asks.values())
    return ToolResult.ask(InputRequired(said, SkillSlot(slot), asks=asks))


@skill(id="asking", description="Asks before it answers.")
class Asking(SkillHandler):
    """Every tool asks something; what comes of the answer is told in one place."""

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        """All that was asked is answered, and told."""
        if not content.data:
            return Failed("that is no answer to what was asked")
        if ctx.slot == SkillSlot("step1"):
            return InputRequired("And then?", SkillSlot("step2"), asks={"step2": Form.of("Which colour?", Colour)})
        state = " (state-ok)" if ctx.slot == SkillSlot("confirm") else ""
        return Completed(f"Answered: {content.data[0]}{state}")

    @tool
    async def test_input_required_result_elicitation(self) -> ToolResult:
        """Ask for a name."""
        return ask("name", user_name=_NAME)

    @tool(needs=["generation"])
    async def test_sampling(self, prompt: str) -> ToolResult:
        """Ask the caller's model what it is told to."""
        return ask("said", said=Generation(message=prompt, max_tokens=100))

    @tool(needs=["form"])
    async def test_elicitation(self, message: str) -> ToolResult:
        """Ask for a name and an address."""
        return ask("contact", contact=Form.of(message, Contact))

    @tool(needs=["form"])
    async def test_elicitation_sep1034_defaults(self) -> ToolResult:
        """Ask with a form that is filled in already."""
        return ask("member", member=Form.of("Is this right?", Member))

    @tool(needs=["form"])
    async def test_elicitation_sep1330_enums(self) -> ToolResult:
        """Ask for choices of every kind."""
        return ask("choices", choices=Form(message="Which of these?", fields=_CHOICES))

    @tool
    async def test_streaming_elicitation(self) -> ToolResult:
        """Ask for a name while a stream is open."""
        return ask("name", user_name=_NAME)

    @tool
    async def test_input_required_result_sampling(self) -> ToolResult:
        """Ask the caller's model."""
        return ask("capital", capital_question=_CAPITAL)

    @tool
    async def test_input_required_result_list_roots(self) -> ToolResult:
        """Ask for the caller's folders."""
        return ask("roots", client_roots=Folders())

    @tool
    async def test_input_required_result_request_state(self) -> ToolResult:
        """Ask for a consent, and know it again."""
        return ask("confirm", confirm=_CONSENT)

    @tool
    async def test_input_required_result_tampered_state(self) -> ToolResult:
        """Ask for a consent that nobody may forge."""
        return ask("confirm", confirm=_CONSENT)

    @tool
    async def test_input_required_result_multiple_inputs(self) -> ToolResult:
        """Ask for three things at once."""
        return ask("all", **_ALL)

    @tool
    async def test_input_required_result_multi_round(self) -> ToolResult:
        """Ask twice, one after the other."""
        return ask("step1", step1=_NAME)

    @tool
    async def test_input_required_result_capabilities(self) -> ToolResult:
        """Ask for what a client may not be able to answer."""
        return ask("all", **_ALL)

    @tool(needs=["generation"])
    async def test_missing_capability(self) -> ToolResult:
        """Be of no use to a client without a model."""
        return ask("capital", capital_question=_CAPITAL)

    @tool(needs=["form"])
    async def test_tool_with_task(self) -> ToolResult:
        """Ask first, and go on as a task."""
        return ask("name", user_name=_NAME)

    @tool(destructive=True)
    async def confirm_delete(self, filename: str) -> ToolResult:
        """Ask before a file would be deleted."""
        return ask("delete", confirm=Form.of(f"Delete {filename}?", Deletion))

    @tool
    async def multi_input(self) -> ToolResult:
        """Ask two people, each in their own time."""
        return ask("both", first=_NAME, second=Form.of("And yours?", Name))
