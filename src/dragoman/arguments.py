"""From JSON that somebody sent to the input of an operation: strict, and with every complaint at once."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar, cast, get_args, runtime_checkable

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic_core import to_json

from dragoman.errors import FieldError, InvalidInput
from dragoman.jsontext import GREATEST, check_values, is_plain, parse_json
from dragoman.operations import I, Input

R = TypeVar("R", bound=Input)
# Stands where a secret was.
WITHHELD: Final = "[redacted]"
# No input of ours has nearly as many fields, and no person reads as many complaints.
MOST_FIELDS: Final = 100


@runtime_checkable
class Raw(Protocol[R]):
    """Input that was not read yet and has its own way to be read."""

    def read(self, model: type[R], /) -> R:
        """Return the input.

        Raises:
            InvalidInput: it is wrong; every field that is wrong is named.
        """
        ...


@dataclass(frozen=True, slots=True)
class Texts:
    """The values of a query string: each is text, and is read as the type of its field."""

    values: dict[str, str]

    def read(self, model: type[I], /) -> I:
        """Return the input that the texts make."""
        _check_fields(self.values)
        check_values(self.values)
        try:
            return model.model_validate_strings(self.values)
        except ValidationError as error:
            raise invalid(error) from None


def read_input(model: type[I], raw: "dict[str, Any] | bytes | Raw[I]") -> I:
    """Return the input of an operation from what was sent: JSON as values or as text, or something else to read.

    Raises:
        InvalidInput: it is wrong; every field that is wrong is named.
    """
    if isinstance(raw, bytes):
        return _read_text(model, raw)
    if isinstance(raw, dict):  # asked first: a protocol takes microseconds to answer
        return read_arguments(model, raw)
    values: Any = raw
    return raw.read(model) if isinstance(values, Raw) else read_arguments(model, values)


def read_arguments(model: type[I], values: Any) -> I:
    """Return the input that these values make.

    Raises:
        InvalidInput: they do not make one; it names every field that is wrong.
    """
    if not isinstance(values, dict):
        raise InvalidInput.of("body", "must be a JSON object")
    given = cast("dict[str, Any]", values)
    _check_fields(given)
    check_values(given)
    field = model.stands_alone
    try:
        # From JSON text once more, in strict mode: "1" is no number there, and an ISO string is still a date.
        return _validate(model, to_json(given), alone=bool(field) and field not in given)
    except ValidationError as error:
        raise invalid(error, without=field) from None


def _read_text(model: type[I], text: bytes) -> I:
    """Read JSON text, without building its values where it cannot hold anything that they would be checked for."""
    # pydantic reads the names of constants as numbers in text that is to become a model.
    if is_plain(text) and text.count(b":") <= MOST_FIELDS and b"NaN" not in text and b"Infinity" not in text:
        alone = bool(model.stands_alone) and f'"{model.stands_alone}"'.encode() not in text
        try:
            return _validate(model, text, alone=alone)
        except ValidationError:
            pass  # what is wrong is said in the same words however the input was sent
    return read_arguments(model, parse_json(text))


def _check_fields(values: dict[str, Any]) -> None:
    if len(values) > MOST_FIELDS:
        raise InvalidInput.of("body", f"must not have more than {MOST_FIELDS} fields")


def _validate(model: type[I], text: bytes, *, alone: bool) -> I:
    if not alone:
        return model.model_validate_json(text, strict=True)
    inner = cast("type[BaseModel]", model.model_fields[model.stands_alone].annotation)
    return model(**{model.stands_alone: inner.model_validate_json(text, strict=True)})


@lru_cache(maxsize=1024)
def takes_secrets(kind: Any) -> bool:
    """Whether a model, or a type of one of its fields, has a place for a secret: a `SecretStr`, at any depth."""
    if isinstance(kind, type) and issubclass(kind, SecretStr | SecretBytes):
        return True
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return any(takes_secrets(field.annotation) for field in kind.model_fields.values())
    return any(takes_secrets(inner) for inner in get_args(kind))


def withhold(kind: Any, value: Any) -> Any:
    """What may be kept of a value that was sent as this type, with every secret taken out.

    Where a model has secrets, what does not belong to it goes too: a secret may stand in the wrong place.
    """
    if value is None or not takes_secrets(kind):
        return value
    if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, dict):
        fields = kind.model_fields
        return {
            name: withhold(fields[name].annotation, inner) if name in fields else WITHHELD
            for name, inner in cast("dict[str, Any]", value).items()
        }
    inside = next((inner for inner in get_args(kind) if takes_secrets(inner)), None)
    if inside is None:
        return WITHHELD
    if isinstance(value, list):
        return [withhold(inside, item) for item in cast("list[Any]", value)]
    return withhold(inside, value)


def whole_numbers(value: Any) -> Any:
    """The value with every floating number that is whole as a whole one, as JSON means it: 24.0 of a wire is 24."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= GREATEST else value
    if isinstance(value, dict):
        return {name: whole_numbers(inner) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [whole_numbers(inner) for inner in cast("list[Any]", value)]
    return value


def invalid(error: ValidationError, *, within: str | None = None, without: str = "") -> InvalidInput:
    """Every complaint, up to a reasonable number, each with its field and what was expected.

    What was checked by itself may be `within` something, which then stands before every field; `without` is a field
    whose name is left out before those within it.
    """
    complaints: list[FieldError] = []
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:MOST_FIELDS]:
        place = (within, *item["loc"]) if within is not None else item["loc"]
        if without and len(place) > 1 and place[0] == without:
            place = place[1:]
        field = ".".join(str(part)[:100] for part in place) or "body"
        complaints.append(FieldError(field=field, message=item["msg"].removeprefix("Value error, ")))
    return InvalidInput(complaints)
