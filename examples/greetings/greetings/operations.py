"""What can be done: declared once, for every door."""

from uuid import UUID

from pydantic import Field

from dragoman.operations import Binding, Effect, Input, ListInput, Operation, Output, Page


class SayGreeting(Input):
    """A greeting to keep."""

    name: str = Field(min_length=1, max_length=100, description="Who is greeted.")


class Greeting(Output):
    """A greeting that was kept."""

    id: UUID
    name: str
    words: str


SAY = Operation(
    "greeting.say", "Greet somebody, and keep it", SayGreeting, Greeting, "write:memory", Effect.WRITE,
    example={"name": "Ada"},
)  # fmt: skip
LIST = Operation("greeting.list", "List greetings", ListInput, Page[Greeting], "read:memory")

BINDINGS = (Binding("POST", "/api/greetings", SAY, 201), Binding("GET", "/api/greetings", LIST))
