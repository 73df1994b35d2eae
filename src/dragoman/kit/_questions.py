"""What a skill can ask of its caller beside plain words: fields to fill in, a turn of its model, its folders."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

Schema = dict[str, JsonValue]
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
}


class _Question(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _schema(fields: object) -> Schema:
    """The schema of a model, or the schema itself; of flat fields, because people are asked with forms.

    Raises:
        ValueError: a field is neither text, a number, a yes or no, nor a choice.
    """
    if isinstance(fields, type) and issubclass(fields, BaseModel):
        schema = fields.model_json_schema()
    else:
        schema = cast("dict[str, Any]", fields)
    for name, field in schema.get("properties", {}).items():
        if field.get("type") not in _TYPES:
            raise ValueError(f"{name!r} is no field of a form: text, a number, a yes or no, or a choice")
    kept = ("type", "properties", "required")
    return {"type": "object"} | {key: schema[key] for key in kept if key in schema}


class Form(_Question):
    """Fields for a person to fill in: a model with flat fields, or its JSON schema. The answer is an object."""

    kind: Literal["form"] = "form"
    message: str = Field(min_length=1)
    fields: Annotated[Schema, BeforeValidator(_schema)]

    @classmethod
    def of(cls, message: str, fields: type[BaseModel]) -> "Form":
        """A form for what the model holds.

        Raises:
            ValueError: a field is neither text, a number, a yes or no, nor a choice.
        """
        return cls.model_validate({"message": message, "fields": fields})

    def find_fault(self, answer: JsonValue) -> str | None:
        """What is wrong with an answer; None when it can be taken."""
        if not isinstance(answer, dict):
            return "must be an object"
        properties = cast("Mapping[str, Mapping[str, Any]]", self.fields.get("properties", {}))
        missing = [name for name in cast("list[str]", self.fields.get("required", [])) if name not in answer]
        if missing:
            return f"lacks {', '.join(missing)}"
        for name, value in answer.items():
            kind = properties.get(name, {}).get("type")
            if kind is not None and (not isinstance(value, _TYPES[kind]) or (kind != "boolean" and value is True)):
                return f"{name} must be of type {kind}"
        return None

    def from_text(self, text: str) -> JsonValue:
        """The answer that the words are where one text is asked for; None where they are none."""
        properties = cast("Mapping[str, Mapping[str, Any]]", self.fields.get("properties", {}))
        if len(properties) != 1:
            return None
        ((name, field),) = properties.items()
        return {name: text} if field.get("type") == "string" else None


class Generation(_Question):
    """A turn of the caller's own model, for agents that have none. The answer is its text."""

    kind: Literal["generation"] = "generation"
    message: str = Field(min_length=1)
    system: str | None = None
    max_tokens: int = Field(default=1_000, ge=1)

    def find_fault(self, answer: JsonValue) -> str | None:
        """What is wrong with an answer; None when it can be taken."""
        return None if isinstance(answer, str) else "must be text"

    def from_text(self, text: str) -> JsonValue:
        """The words themselves."""
        return text


class Folders(_Question):
    """The folders that the caller works in. The answer is a list of `{uri, name?}`."""

    kind: Literal["folders"] = "folders"
    message: str = "In which folders do you work?"

    def find_fault(self, answer: JsonValue) -> str | None:
        """What is wrong with an answer; None when it can be taken."""
        good = isinstance(answer, list) and all(isinstance(one, dict) and "uri" in one for one in answer)
        return None if good else "must be a list of objects with a uri"

    def from_text(self, text: str) -> JsonValue:
        """No words are folders."""
        del text


Question: TypeAlias = Form | Generation | Folders
AnyQuestion = Annotated[Question, Field(discriminator="kind")]
