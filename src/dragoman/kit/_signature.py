"""The arguments of a tool, read from the signature of its function."""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from dragoman.errors import FieldError
from dragoman.kit._validation import field_errors

_STRICT = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=False)


class BadArguments(Exception):
    """The arguments break the schema; `errors` names all that is wrong."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__()
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes: a strict model of its arguments, and the name of the parameter that gets the context."""

    arguments: type[BaseModel]
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
            model = self.arguments.model_validate_json(json.dumps(arguments))
        except ValidationError as error:
            raise BadArguments(field_errors(error)) from None
        return {name: getattr(model, name) for name in type(model).model_fields if name in model.model_fields_set}


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
    context_parameter = None
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    for parameter in parameters:
        hint = hints.get(parameter.name)
        if hint is context_type:
            context_parameter = parameter.name
            continue
        _check(parameter, hint, where)
        fields[parameter.name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    return Signature(create_model(function.__name__, __config__=_STRICT, **fields), context_parameter)


def _check(parameter: inspect.Parameter, hint: object, where: str) -> None:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError(f"{where}: a model fills arguments by name, so {parameter} cannot be one")
    if hint is None:
        raise TypeError(f"{where}: the parameter {parameter.name!r} needs a type")
