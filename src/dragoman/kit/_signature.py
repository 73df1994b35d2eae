"""The arguments of a tool, read from the signature of its function."""

import asyncio
import inspect
import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from dragoman.blocking import Threads
from dragoman.errors import FieldError
from dragoman.kit._validation import field_errors

_CLOSED = ConfigDict(extra="forbid")
_MOST_THREADS: Final = 32
_MOST_FOR_A_TENANT: Final = 8
_THREADS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Threads]] = WeakKeyDictionary()


class BadArguments(Exception):
    """The arguments break the schema; `errors` names all that is wrong."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__()
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: a model of its arguments, their names, and the parameter that gets the context."""

    arguments: type[BaseModel]
    names: dict[str, str]
    context_parameter: str | None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return schema

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the types of the function; JSON rules, so that a date is text but "5" is no number.

        Raises:
            BadArguments: something is missing, unknown or of the wrong type.
        """
        try:
            model = self.arguments.model_validate_json(json.dumps(arguments), strict=True)
        except ValidationError as error:
            raise BadArguments(field_errors(error)) from None
        return {self.names[field]: getattr(model, field) for field in sorted(model.model_fields_set)}


def read_signature(function: Callable[..., Any], context_type: type, *, bound: bool) -> Signature:
    """Read a function once.

    Raises:
        TypeError: a parameter has no type, or is one that a model cannot fill.
    """
    where = f"tool {function.__qualname__}"
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{where}: {error}; the types of a tool are those of its module") from None
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    context_parameter = None
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    for parameter in parameters:
        hint = hints.get(parameter.name)
        if hint is context_type:
            context_parameter = parameter.name
            continue
        _check(parameter, hint, where)
        # The field has a name of its own, so that an argument may be called `json`, `schema` or `copy`.
        field, default = f"argument_{len(names)}", ... if parameter.default is parameter.empty else parameter.default
        names[field] = parameter.name
        fields[field] = (Annotated[hint, Field(alias=parameter.name)], default)
    return Signature(create_model(function.__name__, __config__=_CLOSED, **fields), names, context_parameter)


async def run_function(function: Callable[..., Any], arguments: dict[str, Any], *, tenant: Hashable) -> Any:
    """What the function gives; one that is not `async` runs in a thread, for nobody knows how long it takes."""
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    return await _threads_of(asyncio.get_running_loop()).run(tenant, function, **arguments)


def _threads_of(loop: asyncio.AbstractEventLoop) -> Threads:
    if (threads := _THREADS.get(loop)) is None:
        threads = _THREADS[loop] = Threads("tools", _MOST_THREADS, share=_MOST_FOR_A_TENANT)
    return threads


def _check(parameter: inspect.Parameter, hint: object, where: str) -> None:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError(f"{where}: a model fills arguments by name, so {parameter} cannot be one")
    if hint is None:
        raise TypeError(f"{where}: the parameter {parameter.name!r} needs a type")
