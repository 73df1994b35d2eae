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
# The keys below these are names, not keywords.
_NAMES: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_MOST_ERRORS: Final = 20


class OpenInput(Input):
    """Any input: the worker checks it itself."""

    model_config = ConfigDict(frozen=True, extra="allow")


def check_schema(schema: Json) -> None:
    """Check that a document is a JSON schema, and one that can be checked in bounded time.

    Raises:
        ValueError: it is not.
        ExtraMissing: this server cannot read JSON schemas.
    """
    refused = sorted(_REFUSED.intersection(_keywords(schema)))
    if refused:
        raise ValueError(f"must not use {', '.join(refused)}: leave these checks to the worker")
    validator = _validator()
    if (error := next(validator(validator.META_SCHEMA).iter_errors(schema), None)) is not None:
        raise ValueError(f"must be a JSON schema: {_message(error)}")
    if schema.get("type", "object") != "object":
        raise ValueError("must be the schema of an object")


def input_of(schema: Json | None) -> type[Input]:
    """Return a model that accepts what the schema allows; without a schema, anything.

    Raises:
        ExtraMissing: this server cannot read JSON schemas.
    """
    if schema is None:
        return OpenInput
    validator = _validator()(schema)

    class RemoteInput(OpenInput):
        """Input that fits the schema of the worker."""

        @model_validator(mode="before")
        @classmethod
        def _fits(cls, value: Any) -> Any:
            if errors := [_message(error) for error in islice(validator.iter_errors(value), _MOST_ERRORS)]:
                raise ValueError("; ".join(errors))
            return value

        @classmethod
        def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
            del core_schema, handler
            return schema

    return RemoteInput


def _keywords(schema: Json) -> Iterator[str]:
    waiting: list[tuple[Any, bool]] = [(schema, True)]
    while waiting:
        value, has_keywords = waiting.pop()
        if isinstance(value, dict):
            fields = cast("Json", value)
            yield from fields if has_keywords else ()
            waiting += [(inner, not has_keywords or name not in _NAMES) for name, inner in fields.items()]
        elif isinstance(value, list):
            waiting += [(inner, True) for inner in cast("list[Any]", value)]


def _message(error: Any) -> str:
    return f"{'.'.join(map(str, error.absolute_path)) or 'input'}: {error.message[:200]}"


def _validator() -> Any:
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - it comes with the extra, and few tenants need it
    except ImportError:
        raise ExtraMissing("mcp") from None
    return Draft202012Validator
