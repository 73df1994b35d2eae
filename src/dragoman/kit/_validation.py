"""Values as JSON and back, and complaints that a person or a model can act on."""

import difflib
import json
from collections.abc import Iterable
from typing import Any, TypeVar, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from dragoman.errors import FieldError

T = TypeVar("T")


def to_json(value: object) -> JsonValue:
    """A model, a dataclass, an enum or a plain value as JSON; always a copy.

    Raises:
        TypeError: it holds something that JSON cannot say.
    """
    try:
        return cast("JsonValue", to_jsonable_python(value, inf_nan_mode="strings"))
    except (PydanticSerializationError, UnicodeDecodeError) as error:
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON: {error}") from None


def from_json(value: JsonValue, target: type[T]) -> T:
    """The value that `to_json` wrote, as its type again.

    Raises:
        ValueError: the JSON does not fit the type.
    """
    adapter: TypeAdapter[T] = TypeAdapter(target)
    try:
        return adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        named = getattr(target, "__name__", str(target))
        raise ValueError(f"not a {named}: {readable(field_errors(error))}") from error


def field_errors(error: ValidationError) -> list[FieldError]:
    """Every complaint at once, each with the path to its field."""
    return [
        FieldError(field=".".join(map(str, complaint["loc"])), message=complaint["msg"])
        for complaint in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def readable(errors: Iterable[FieldError]) -> str:
    """The complaints in one line."""
    return "; ".join(f"{error.field}: {error.message}" if error.field else error.message for error in errors)


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` where something known is near, and nothing where it is not."""
    near = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def nothing_but_json(value: Any) -> JsonValue:
    """For fields that hold any JSON: models and dataclasses are welcome, and are written down at once."""
    return to_json(value)
