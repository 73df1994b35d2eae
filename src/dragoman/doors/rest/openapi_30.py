"""The same document for tools that stopped at OpenAPI 3.0: what 3.0 cannot say is said more loosely, never wrongly."""

from copy import deepcopy
from typing import Any, Final, cast

Json = dict[str, Any]
# A schema of 3.0 knows these words and no others.
_WORDS: Final = {
    *("type", "format", "enum", "nullable", "title", "description", "default", "example", "deprecated"),
    *("properties", "required", "additionalProperties", "minProperties", "maxProperties", "discriminator"),
    *("items", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "pattern", "readOnly", "writeOnly"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "not"),
}
_NULL: Final[Json] = {"type": "null"}
# Below these stand values, not descriptions: they are taken over as they are.
_VALUES: Final = ("example", "examples")


def to_openapi_30(document: Json) -> Json:
    """An OpenAPI 3.0.3 rendering of a 3.1 document; the given one is left alone."""
    rendered: Json = _document(document)
    rendered["openapi"] = "3.0.3"
    rendered["info"].get("license", {}).pop("identifier", None)
    return rendered


def _document(node: Any) -> Any:
    if isinstance(node, list):
        return [_document(each) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    made: Json = {}
    for key, value in cast("Json", node).items():
        if key in _VALUES:
            made[key] = deepcopy(value)
        elif key == "schema":
            made[key] = _schema(value)
        elif key == "schemas":
            made[key] = {name: _schema(each) for name, each in value.items()}
        else:
            made[key] = _document(value)
    return made


def _schema(node: Any) -> Json:
    """One schema. Booleans are no schemas in 3.0: anything is `{}`, nothing is its negation."""
    if isinstance(node, bool):
        return {} if node else {"not": {}}
    schema: Json = dict(node)
    _fold_null(schema)
    _fold_values(schema)
    _fold_bounds(schema)
    if schema.get("type") == "array":
        schema.setdefault("items", {})
    if "patternProperties" in schema and schema.get("additionalProperties") is False:
        del schema["additionalProperties"]
    made = {key: _inner(key, value) for key, value in schema.items() if key in _WORDS or key.startswith("x-")}
    if "$ref" not in schema:
        return made
    # A reference stands alone in 3.0: whatever is said beside it is ignored, so it moves one level down.
    reference = {"$ref": schema["$ref"]}
    return {"allOf": [reference, *made.pop("allOf", [])], **made} if made else reference


def _inner(key: str, value: Any) -> Any:
    if key in ("allOf", "anyOf", "oneOf"):
        return [_schema(each) for each in value]
    if key == "properties":
        return {name: _schema(each) for name, each in value.items()}
    if key in ("items", "not") or (key == "additionalProperties" and not isinstance(value, bool)):
        return _schema(value)
    return deepcopy(value)


def _fold_null(schema: Json) -> None:
    """`null` is no type in 3.0 but a property of another one."""
    nullable = False
    kinds = schema.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in cast("list[str]", kinds) if kind != "null"]
        nullable = len(others) < len(cast("list[str]", kinds))
        del schema["type"]
        if len(others) == 1:
            schema["type"] = others[0]
        else:
            schema["anyOf"] = [{"type": kind} for kind in others]
    elif kinds == "null":
        del schema["type"]
        schema["enum"] = [None]
        nullable = True
    for word in ("anyOf", "oneOf"):
        branches: list[Any] = schema.get(word, [])
        if _NULL not in branches:
            continue
        nullable = True
        others = [branch for branch in branches if branch != _NULL]
        del schema[word]
        if len(others) == 1:
            schema.update({**others[0], **schema})
        else:
            schema[word] = others
    if nullable:
        schema["nullable"] = True
        if "enum" in schema and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]


def _fold_values(schema: Json) -> None:
    """One value is an enumeration of one; of several examples, the first."""
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if samples := schema.pop("examples", None):
        schema.setdefault("example", samples[0])
    if schema.get("default", ...) is None:
        del schema["default"]


def _fold_bounds(schema: Json) -> None:
    """`exclusiveMinimum: 0` was `minimum: 0, exclusiveMinimum: true`; of two bounds, the tighter one counts."""
    for word, plain, tighter in (("exclusiveMinimum", "minimum", max), ("exclusiveMaximum", "maximum", min)):
        bound = schema.get(word)
        if bound is None or isinstance(bound, bool):
            continue
        other = schema.get(plain, bound)
        schema[plain] = tighter(bound, other)
        if schema[plain] == bound:
            schema[word] = True
        else:
            del schema[word]
