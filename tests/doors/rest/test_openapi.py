"""The documents say what is served: every operation and every site path, with examples that fit."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from openapi_spec_validator.validation import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator
from pydantic import Field

from dragoman.addresses import bindings
from dragoman.doors.rest.openapi import build_openapi
from dragoman.doors.rest.openapi_30 import to_openapi_30
from dragoman.doors.rest.site import SITE_PATHS
from dragoman.operations import Binding, Effect, Input, Operation, Output, Page

Json = dict[str, Any]
DOCUMENT = build_openapi(bindings(), version="1.2.3", site=SITE_PATHS)
EACH_BINDING = pytest.mark.parametrize("binding", bindings(), ids=lambda binding: binding.operation.tool)
pytestmark = pytest.mark.req("GW-405")


def documented(binding: Binding) -> Json:
    return DOCUMENT["paths"][binding.path][binding.method.lower()]


def complaints(schema: Json, value: Any) -> list[str]:
    """What is wrong with a value, formats included; the document itself resolves the references."""
    checker = Draft202012Validator(
        {**schema, "components": DOCUMENT["components"]}, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    return [error.message for error in checker.iter_errors(value)]


def resolved(node: Json) -> Json:
    """What a reference stands for."""
    for part in node["$ref"].removeprefix("#/").split("/") if "$ref" in node else ():
        node = DOCUMENT[part] if part == "components" else node[part]
    return node


def named(operation: Json, place: str) -> set[str]:
    found = (
        DOCUMENT["components"]["parameters"][p["$ref"].rpartition("/")[2]] if "$ref" in p else p
        for p in operation["parameters"]
    )
    return {parameter["name"] for parameter in found if parameter["in"] == place}


def schemas_in(node: Any, key: str = "") -> Iterator[Json]:
    """Every schema of a document, and every schema inside it."""
    if isinstance(node, list):
        for each in node:
            yield from schemas_in(each)
    elif isinstance(node, dict) and key not in ("example", "examples"):
        for name, value in node.items():
            if name == "schema":
                yield from inner_schemas(value)
            elif name == "schemas":
                for schema in value.values():
                    yield from inner_schemas(schema)
            else:
                yield from schemas_in(value, name)


def inner_schemas(schema: Json) -> Iterator[Json]:
    yield schema
    for word in ("allOf", "anyOf", "oneOf"):
        for branch in schema.get(word, []):
            yield from inner_schemas(branch)
    for each in schema.get("properties", {}).values():
        yield from inner_schemas(each)
    for word in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(word), dict):
            yield from inner_schemas(schema[word])


def test_both_documents_are_valid() -> None:
    validate(DOCUMENT, cls=OpenAPIV31SpecValidator)
    validate(to_openapi_30(DOCUMENT), cls=OpenAPIV30SpecValidator)

    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["version"] == "1.2.3"
    assert to_openapi_30(DOCUMENT)["openapi"] == "3.0.3"


def test_the_document_holds_every_address_and_nothing_else() -> None:
    told = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}

    assert told == {(b.method, b.path) for b in bindings()} | {("GET", place.path) for place in SITE_PATHS}


def test_operation_ids_are_the_names_of_the_tools_and_unique() -> None:
    ids = [operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()]

    assert len(ids) == len(set(ids))
    assert {binding.operation.tool for binding in bindings()} <= set(ids)


def test_the_same_operations_give_the_same_document() -> None:
    again = build_openapi(bindings(), version="1.2.3", site=SITE_PATHS)

    assert json.dumps(again) == json.dumps(DOCUMENT)


@EACH_BINDING
def test_the_request_example_is_taken_by_schema_and_model(binding: Binding) -> None:
    operation = documented(binding)
    path = {p["name"]: p["example"] for p in operation["parameters"] if p.get("in") == "path"}
    body: Json = {}
    if "requestBody" in operation:
        media = operation["requestBody"]["content"]["application/json"]
        body = media["example"]
        assert complaints(media["schema"], body) == []

    binding.operation.input.model_validate_json(json.dumps(path | body), strict=True)


@EACH_BINDING
def test_the_response_example_fits_its_schema_and_its_model(binding: Binding) -> None:
    media = documented(binding)["responses"][str(binding.status)]["content"]["application/json"]
    example = media["example"]

    assert complaints(media["schema"], example) == []
    output = binding.operation.output
    whole = {"items": example["data"]} if issubclass(output, Page) else example["data"]
    assert output.model_validate(whole).model_dump(mode="json") == whole | (
        {"next_cursor": None} if issubclass(output, Page) else {}
    )


@EACH_BINDING
def test_the_fields_of_an_input_stand_in_one_place_each(binding: Binding) -> None:
    operation = documented(binding)
    fields = set(binding.operation.input.model_fields)
    body: Json = {}
    if "requestBody" in operation:
        body = resolved(operation["requestBody"]["content"]["application/json"]["schema"])
        assert body["additionalProperties"] is False
        assert operation["requestBody"]["required"] == bool(body.get("required"))
    in_body = set(body.get("properties", {}))

    assert named(operation, "path") == set(binding.parameters)
    assert named(operation, "query") | in_body == fields - set(binding.parameters) - {"expected_version"}
    assert ("If-Match" in named(operation, "header")) == ("expected_version" in fields)
    assert ("Idempotency-Key" in named(operation, "header")) == binding.operation.writes


def test_optional_parameters_have_no_example_that_swagger_ui_would_send() -> None:
    inline = [p for b in bindings() for p in documented(b)["parameters"] if "$ref" not in p and not p.get("required")]

    assert [p["name"] for p in [*inline, *DOCUMENT["components"]["parameters"].values()] if "example" in p] == []


@EACH_BINDING
def test_every_error_that_an_operation_can_answer_is_listed(binding: Binding) -> None:
    operation = documented(binding)
    statuses = {int(status) for status in operation["responses"]}

    assert statuses >= {binding.status, 400, 401, 403, 429, 500, 503, 504}
    assert (404 in statuses) == (bool(binding.parameters) or binding.method != "GET")
    assert (409 in statuses) == binding.operation.writes
    assert ({413, 415} <= statuses) == (binding.method != "GET")
    assert "If-Match" not in named(operation, "header") or 412 in statuses


@EACH_BINDING
def test_a_success_names_its_headers(binding: Binding) -> None:
    headers = set(documented(binding)["responses"][str(binding.status)]["headers"])
    fields = binding.operation.output.model_fields

    assert {"X-Request-ID", "RateLimit", "RateLimit-Policy", "X-RateLimit-Remaining"} <= headers
    assert ("ETag" in headers) == ("version" in fields)
    assert ("Location" in headers) == (binding.status == 201)


def test_every_problem_has_an_example_that_fits() -> None:
    for name, response in DOCUMENT["components"]["responses"].items():
        media = response["content"]["application/problem+json"]
        assert media["examples"], name
        for example in media["examples"].values():
            assert complaints(media["schema"], example["value"]) == []
    limited = DOCUMENT["components"]["responses"]["TooManyRequests"]
    assert "Retry-After" in limited["headers"]


def test_credentials_are_asked_for_everywhere_but_on_the_open_site() -> None:
    assert DOCUMENT["security"] == [{"bearer": []}, {"apiKey": []}]
    open_paths = {path for path, item in DOCUMENT["paths"].items() for o in item.values() if o.get("security") == []}

    assert open_paths == {place.path for place in SITE_PATHS if place.open}


def test_site_paths_that_are_no_probes_can_be_limited() -> None:
    limited = {place.path for place in SITE_PATHS if "429" in DOCUMENT["paths"][place.path]["get"]["responses"]}

    assert {place.path for place in SITE_PATHS} - limited == {"/health", "/ready"}


def test_site_examples_fit_their_schemas() -> None:
    for place in SITE_PATHS:
        for answer in DOCUMENT["paths"][place.path]["get"]["responses"].values():
            for media in resolved(answer).get("content", {}).values():
                if "example" in media:
                    assert complaints(media["schema"], media["example"]) == []


def test_the_older_document_speaks_no_word_of_the_newer() -> None:
    older = to_openapi_30(DOCUMENT)

    schemas = list(schemas_in(older))
    assert len(schemas) > 100
    for schema in schemas:
        assert "$ref" not in schema or set(schema) == {"$ref"}
        assert not {"const", "examples", "prefixItems", "propertyNames", "patternProperties", "$defs"} & set(schema)
        assert isinstance(schema.get("type", ""), str)
        assert schema.get("type") != "null"
        assert isinstance(schema.get("exclusiveMinimum", False), bool)
        assert isinstance(schema.get("exclusiveMaximum", False), bool)
    assert "identifier" not in older["info"]["license"]
    assert set(older["paths"]) == set(DOCUMENT["paths"])


def test_the_newer_document_is_left_alone_by_the_older() -> None:
    before = json.dumps(DOCUMENT)

    to_openapi_30(DOCUMENT)

    assert json.dumps(DOCUMENT) == before


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ({"type": ["string", "null"], "maxLength": 3}, {"type": "string", "maxLength": 3, "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "null"}, {"enum": [None], "nullable": True}),
        (
            {"anyOf": [{"$ref": "#/x"}, {"type": "null"}], "default": None, "description": "d"},
            {"allOf": [{"$ref": "#/x"}], "nullable": True, "description": "d"},
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "integer"}, {"type": "string"}], "nullable": True},
        ),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"enum": ["a"], "type": ["string", "null"]}, {"enum": ["a", None], "type": "string", "nullable": True}),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 0, "exclusiveMinimum": True}),
        (
            {"type": "number", "exclusiveMaximum": 9, "maximum": 5, "exclusiveMinimum": 2, "minimum": 1},
            {"type": "number", "maximum": 5, "minimum": 2, "exclusiveMinimum": True},
        ),
        ({"type": "string", "examples": ["a", "b"]}, {"type": "string", "example": "a"}),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, {"type": "array", "items": {}}),
        (
            {"type": "object", "patternProperties": {"^a": True}, "additionalProperties": False},
            {"type": "object"},
        ),
        ({"$ref": "#/x", "description": "d"}, {"allOf": [{"$ref": "#/x"}], "description": "d"}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        (
            {"type": "object", "properties": {"const": {"const": 1}, "examples": {"type": "string"}}},
            {"type": "object", "properties": {"const": {"enum": [1]}, "examples": {"type": "string"}}},
        ),
    ],
)
def test_a_schema_in_the_words_of_the_older_document(newer: Json, older: Json) -> None:
    document = {"openapi": "3.1.0", "info": {}, "components": {"schemas": {"It": newer}}}

    assert to_openapi_30(document)["components"]["schemas"]["It"] == older


class Thing(Output):
    """A thing."""

    id: str


class ChangeThing(Input):
    """What to change."""

    thing_id: str
    ratio: float = Field(gt=0, lt=1)


def test_one_model_for_two_bodies_is_refused() -> None:
    """A component has one shape: where two addresses carry different fields, one would be documented wrongly."""
    first = Operation("thing.change", "Change", ChangeThing, Thing, "write:things", Effect.WRITE)
    second = Operation("thing.alter", "Alter", ChangeThing, Thing, "write:things", Effect.WRITE)
    bindings = [Binding("POST", "/api/things", first), Binding("POST", "/api/things/{thing_id}", second)]

    with pytest.raises(ValueError, match=r"thing\.alter"):
        build_openapi(bindings, version="1", site=())
