"""Ways of asking that an agent offers to people: a name, some arguments, and the conversation that comes of them."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, overload

from dragoman.context import Caller
from dragoman.errors import InvalidInput
from dragoman.kit._offering import Offered, Offering
from dragoman.kit._signature import BadArguments, read_signature, run_function
from dragoman.kit._thread import Thread

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """Something that a person is asked for before the prompt is made."""

    name: str
    description: str
    required: bool


class Prompt(Offering):
    """A function that makes a conversation of texts. Make one with `@prompt`."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        description: str,
        title: str = "",
        offered: Offered | None = None,
    ) -> None:
        super().__init__(offered)
        if not _NAME.fullmatch(name):
            raise ValueError(f"the prompt name {name!r} must be 1 to 64 letters, digits, _ . or -")
        self.name, self.description = name, description.strip()
        self.title = title or re.sub(r"[._-]", " ", name).capitalize()
        self._function = function
        self._signature = read_signature(function, Caller, bound=False)
        schema = self._signature.schema
        properties: dict[str, dict[str, Any]] = schema.get("properties", {})
        if any(field.get("type") != "string" for field in properties.values()):
            raise TypeError(f"prompt {name!r}: a person writes its arguments, so each must be a str")
        required = set(schema.get("required", []))
        self.arguments = tuple(
            PromptArgument(key, field.get("description", ""), key in required) for key, field in properties.items()
        )

    def missing(self, arguments: Mapping[str, str]) -> list[PromptArgument]:
        """What must still be known."""
        return [one for one in self.arguments if one.required and not arguments.get(one.name)]

    async def fill(self, arguments: Mapping[str, str], caller: Caller | None = None) -> Thread:
        """The conversation; what the function gives is said by the user, unless it gives events.

        Raises:
            InvalidInput: an argument is missing or unknown.
        """
        try:
            filled = self._signature.read(dict(arguments))
        except BadArguments as error:
            raise InvalidInput(error.errors) from None
        if self._signature.context_parameter:
            filled[self._signature.context_parameter] = caller
        return Thread.of(await run_function(self._function, filled, tenant=caller.tenant if caller else None))

    def __repr__(self) -> str:
        return f"Prompt({self.name!r})"


@overload
def prompt(function: Callable[..., Any], /) -> Prompt: ...
@overload
def prompt(
    description: str | None = None, /, *, name: str | None = None, title: str = "", offered: Offered | None = None
) -> Callable[[Callable[..., Any]], Prompt]: ...
def prompt(
    given: Callable[..., Any] | str | None = None,
    /,
    *,
    name: str | None = None,
    title: str = "",
    offered: Offered | None = None,
) -> Prompt | Callable[[Callable[..., Any]], Prompt]:
    """Make a prompt of a function whose parameters are texts; without a description its docstring is one.

    Raises:
        TypeError: it has no description, or a parameter is no text.
    """

    def make(function: Callable[..., Any]) -> Prompt:
        told = given if isinstance(given, str) else inspect.getdoc(function)
        if not told or not told.strip():
            raise TypeError(f"prompt {function.__qualname__} needs a description or a docstring: people choose by it")
        return Prompt(function, name=name or function.__name__, description=told, title=title, offered=offered)

    return make(given) if callable(given) else make
