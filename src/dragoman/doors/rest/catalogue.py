"""The schemas of all models that REST shows, by their names."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, cast, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from dragoman.doors.rest import components
from dragoman.doors.rest.components import ref
from dragoman.operations import AnyOperation, Page

Json = dict[str, Any]
SCHEMAS: Final = "#/components/schemas/"


class _Untitled(GenerateJsonSchema):
    """A title that repeats the name of the field says nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - of no field
        return False


class Catalogue:
    """The schemas of all models, by name; bodies are cut to what the address does not carry."""

    def __init__(self, operations: Sequence[AnyOperation], shown: Iterable[type[BaseModel]]) -> None:
        self.operations = operations
        modes: dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None] = {}
        for operation in operations:
            modes[operation.input, "validation"] = None
            modes[shown_model(operation), "serialization"] = None
        modes |= {(model, "serialization"): None for model in shown}
        self._refs, found = models_json_schema(
            list(modes), ref_template=SCHEMAS + "{model}", schema_generator=_Untitled
        )
        self._found: dict[str, Json] = found.get("$defs", {})
        self.schemas: dict[str, Json] = {**self._found, **components.schemas()}
        self._bodies: dict[str, Json] = {}

    def output(self, model: type[BaseModel]) -> Json:
        """A reference to what a model looks like going out."""
        return self._refs[model, "serialization"]

    def input(self, operation: AnyOperation) -> Json:
        """All that an operation takes."""
        return self._found[self._input_name(operation)]

    def body(self, operation: AnyOperation, left_out: Iterable[str]) -> Json:
        """A reference to what of it stands in the body."""
        name, whole = self._input_name(operation), self.input(operation)
        gone = set(left_out)
        body: Json = {**whole, "properties": {n: s for n, s in whole.get("properties", {}).items() if n not in gone}}
        body.pop("required", None)
        if required := [each for each in whole.get("required", []) if each not in gone]:
            body["required"] = required
        if self._bodies.setdefault(name, body) != body:
            raise ValueError(f"{operation.name} shares its input model {name} with another body; it needs its own")
        self.schemas[name] = body
        return ref("schemas", name)

    def _input_name(self, operation: AnyOperation) -> str:
        return self._refs[operation.input, "validation"]["$ref"].removeprefix(SCHEMAS)


def shown_model(operation: AnyOperation) -> type[BaseModel]:
    """The model in `data`: of a page, the model of its items."""
    if issubclass(operation.output, Page):
        return get_args(operation.output.model_fields["items"].annotation)[0]
    return operation.output


def reachable(schemas: dict[str, Json], roots: list[Json]) -> dict[str, Json]:
    """Those schemas that something refers to, in order of their names."""
    wanted: set[str] = set()
    waiting: list[Any] = list(roots)
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(cast("list[Any]", node))
        elif isinstance(node, dict):
            branch = cast("Json", node)
            waiting.extend(branch.values())
            name = str(branch.get("$ref", "")).removeprefix(SCHEMAS)
            if name in schemas and name not in wanted:
                wanted.add(name)
                waiting.append(schemas[name])
    return {name: schemas[name] for name in sorted(wanted)}
