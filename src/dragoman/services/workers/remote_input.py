"""The input of an action that a remote worker describes by a JSON schema."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, cast

from pydantic import ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from dragoman.errors import ExtraMissing
from dragoman.operations import Input

Json = dict[str, Any]
# A reference can make a small schema an endless one, and a pattern can keep a process busy for ever.
_REFUSED: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "pattern", "patternProperties", "uniqueItems"})
# Below these stand names of the writer's own.
_NAMES: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_MOST_COMPLAINTS: Final = 20


class OpenInput(Input):
    """Whatever the worker takes: it checks it itself."""

    model_config = ConfigDict(frozen=True, extra="allow")


def check_schema(schema: Json) -> None:
    """Refuse what is no JSON schema, and what could not be checked in bounded time.

    Raises:
        ValueError: it is refused.
        ExtraMissing: this server cannot read JSON schemas.
    """
    found = sorted(_REFUSED.intersection(_keywords(schema)))
    if found:
        raise ValueError(f"must do without {', '.join(found)}, which the worker checks itself")
    validator = _validator()
    if (wrong := next(validator(validator.META_SCHEMA).iter_errors(schema), None)) is not None:
        raise ValueError(f"must be a JSON schema: {_told(wrong)}")
    if schema.get("type", "object") != "object":
        raise ValueError("must be the schema of an object")


def input_of(schema: Json | None) -> type[Input]:
    """A model that takes what the schema allows; without one, anything.

    Raises:
        ExtraMissing: this server cannot read JSON schemas.
    """
    if schema is None:
        return OpenInput
    validator = _validator()(schema)

    class RemoteInput(OpenInput):
        """What the worker says that it takes."""

        @model_validator(mode="before")
        @classmethod
        def _fits(cls, given: Any) -> Any:
            if said := [_told(error) for error in islice(validator.iter_errors(given), _MOST_COMPLAINTS)]:
                raise ValueError("; ".join(said))
            return given

        @classmethod
        def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
            del core_schema, handler
            return schema

    return RemoteInput


def _keywords(schema: Json) -> Iterator[str]:
    waiting: list[tuple[Any, bool]] = [(schema, True)]
    while waiting:
        one, speaks = waiting.pop()
        if isinstance(one, dict):
            held = cast("Json", one)
            yield from held if speaks else ()
            waiting += [(inner, not speaks or name not in _NAMES) for name, inner in held.items()]
        elif isinstance(one, list):
            waiting += [(inner, True) for inner in cast("list[Any]", one)]


def _told(error: Any) -> str:
    return f"{'.'.join(map(str, error.absolute_path)) or 'input'}: {error.message[:200]}"


def _validator() -> Any:
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - it comes with the extra, and few tenants need it
    except ImportError:
        raise ExtraMissing("mcp") from None
    return Draft202012Validator
