"""The OpenAPI 3.1 document, projected from the operations: what is documented is what is served."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from dragoman.doors.rest import components
from dragoman.doors.rest.catalogue import SCHEMAS, Catalogue, reachable, shown_model
from dragoman.doors.rest.components import LIMIT_HEADERS, error_ref, header_refs, ref
from dragoman.doors.rest.examples import ID, TIME, Examples, known_values
from dragoman.operations import Binding, Page

Json = dict[str, Any]
_VERSION_FIELD: Final = "expected_version"
_JSON: Final = "application/json"
_ABOUT: Final = (
    "One governed back-end for AI agents. Every operation here is the same one, with the same guards, behind A2A "
    "and the shell.\n\nA success is `{success, data, meta}`; an error is a problem document (RFC 9457). "
    "Lists are paged: give `meta.nextCursor` back as `cursor`."
)


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    """One thing that a site path may answer; `content` is media type to schema, a model or none."""

    status: int
    description: str
    content: dict[str, type[BaseModel] | Json] = field(default_factory=dict[str, "type[BaseModel] | Json"])
    example: Any = None
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SitePath:
    """An address that is no operation: it answers GET and HEAD.

    `limited` is for all but probes; `parameters` are the schemas of what varies in the path, `query` of what
    may follow it.
    """

    path: str
    name: str
    summary: str
    answers: tuple[SiteAnswer, ...]
    parameters: dict[str, Json] = field(default_factory=dict[str, Json])
    query: dict[str, Json] = field(default_factory=dict[str, Json])
    errors: tuple[int, ...] = ()
    limited: bool = True
    open: bool = True


def build_openapi(
    bindings: Sequence[Binding], *, version: str, site: Sequence[SitePath], carried: Mapping[str, Json] | None = None
) -> Json:
    """The whole document; the same input gives the same document. `carried` are the path items of other doors.

    Raises:
        ValueError: one input model would need two different bodies, since two paths carry different fields of it.
    """
    catalogue = Catalogue([b.operation for b in bindings], _models(site))
    paths: Json = {}
    for binding in bindings:
        paths.setdefault(binding.path, {})[binding.method.lower()] = _operation(binding, catalogue)
    for place in site:
        paths.setdefault(place.path, {})["get"] = _site_operation(place, catalogue)
    paths |= carried or {}
    others = [operation["tags"][0] for item in (carried or {}).values() for operation in item.values()]
    tags = dict.fromkeys([*(binding.tag for binding in bindings), *("site" for _ in site), *others])
    responses = components.responses()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dragoman",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"apiKey": []}],
        "tags": [{"name": tag} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": reachable(catalogue.schemas, [paths, responses]),
            "responses": responses,
            "parameters": components.parameters(),
            "headers": components.headers(),
            "securitySchemes": components.security_schemes(),
        },
    }


def _operation(binding: Binding, catalogue: Catalogue) -> Json:
    operation = binding.operation
    needs = f"Needs the permission `{operation.permission}`."
    described: Json = {
        "operationId": operation.tool,
        "tags": [binding.tag],
        "summary": operation.summary,
        "description": f"{operation.description}\n\n{needs}".strip(),
        "parameters": _parameters(binding, catalogue),
    }
    if (body := _body(binding, catalogue)) is not None:
        described["requestBody"] = body
    described["responses"] = {str(binding.status): _success(binding, catalogue)}
    described["responses"] |= {str(status): error_ref(status) for status in _failures(binding)}
    return described


def _has_precondition(binding: Binding) -> bool:
    return binding.method != "GET" and _VERSION_FIELD in binding.operation.input.model_fields


def _parameters(binding: Binding, catalogue: Catalogue) -> list[Json]:
    whole = catalogue.input(binding.operation)
    examples = Examples(catalogue.schemas, binding.operation.example)
    found: list[Json] = []
    for name, schema in whole.get("properties", {}).items():
        if name in binding.parameters:
            value = binding.operation.example.get(name, examples.of(schema, name))
            found.append({**_parameter(name, "path", schema), "required": True, "example": value})
        elif binding.method == "GET":
            found.append(_parameter(name, "query", schema) | _required(name in whole.get("required", [])))
    if _has_precondition(binding):
        found.append(ref("parameters", "IfMatch"))
    if binding.operation.writes:
        found.append(ref("parameters", "IdempotencyKey"))
    return [*found, ref("parameters", "RequestId"), ref("parameters", "CorrelationId")]


def _required(required: bool) -> Json:  # noqa: FBT001 - one word to one key
    return {"required": True} if required else {}


def _parameter(name: str, place: str, schema: Json) -> Json:
    """A field as a parameter: text cannot be null, and what is said of it is said of the parameter."""
    inner = dict(schema)
    branches = [branch for branch in inner.pop("anyOf", []) if branch != {"type": "null"}]
    if len(branches) == 1:
        inner = branches[0] | inner
    elif branches:
        inner["anyOf"] = branches
    if inner.get("default", ...) is None:
        del inner["default"]
    made: Json = {"name": name, "in": place}
    if (said := inner.pop("description", None)) is not None:
        made["description"] = said
    # An example of an optional parameter would be sent with every request that is tried out in Swagger UI.
    inner.pop("examples", None)
    return {**made, "schema": inner}


def _body(binding: Binding, catalogue: Catalogue) -> Json | None:
    if binding.method == "GET":
        return None
    gone = {*binding.parameters, _VERSION_FIELD}
    fields: Json = {n: s for n, s in catalogue.input(binding.operation).get("properties", {}).items() if n not in gone}
    if not fields:
        return None
    schema = catalogue.body(binding.operation, gone)
    example = {name: value for name, value in binding.operation.example.items() if name in fields}
    if not example:
        examples = Examples(catalogue.schemas, {})
        example = {n: s["default"] if "default" in s else examples.of(s, n) for n, s in fields.items()}
    required = bool(catalogue.schemas[schema["$ref"].removeprefix(SCHEMAS)].get("required"))
    return {"required": required, "content": {_JSON: {"schema": schema, "example": example}}}


def _success(binding: Binding, catalogue: Catalogue) -> Json:
    operation = binding.operation
    paged = issubclass(operation.output, Page)
    shown = catalogue.output(shown_model(operation))
    examples = Examples(catalogue.schemas, known_values(operation, catalogue.operations))
    data: Json = {"type": "array", "items": shown} if paged else shown
    meta: Json = {"requestId": ID, "timestamp": TIME} | ({"nextCursor": None} if paged else {})
    schema: Json = {
        "type": "object",
        "required": ["success", "data", "meta"],
        "properties": {
            "success": {"const": True, "type": "boolean"},
            "data": data,
            "meta": ref("schemas", "PageMeta" if paged else "Meta"),
        },
    }
    names = ["X-Request-ID", "X-Correlation-ID", *LIMIT_HEADERS]
    fields = operation.output.model_fields
    if "version" in fields:
        names.append("ETag")
    if binding.status == 201 and ("id" in fields or hasattr(operation.output, "id")):
        names.append("Location")
    if operation.writes:
        names.append("Idempotency-Replayed")
    example = {"success": True, "data": examples.of(data), "meta": meta}
    return {
        "description": operation.output.__doc__ if not paged else "A page, newest first.",
        "headers": header_refs(*names),
        "content": {_JSON: {"schema": schema, "example": example}},
    }


def _failures(binding: Binding) -> list[int]:
    """Every error that can come of it: the edge's, the gate's, the wire's, and those of its effect."""
    statuses = {400, 401, 403, 429, 500, 503, 504}
    if binding.parameters:
        statuses.add(404)
    if binding.method != "GET":
        # A body is read, and judged, even where none is needed; it may name what is not there.
        statuses |= {404, 413, 415}
    if binding.operation.writes:
        statuses.add(409)
        # Something with a version may also move on between our own reading and writing.
        if binding.parameters and "version" in binding.operation.output.model_fields:
            statuses.add(412)
    if _has_precondition(binding):
        statuses.add(412)
    return sorted(statuses)


def _models(site: Sequence[SitePath]) -> list[type[BaseModel]]:
    contents = (model for place in site for answer in place.answers for model in answer.content.values())
    return [model for model in contents if isinstance(model, type)]


def _site_operation(place: SitePath, catalogue: Catalogue) -> Json:
    statuses = {403, 500, 504, *place.errors}
    if place.limited:
        statuses.add(429)
    if not place.open:
        statuses.add(401)
    described: Json = {"operationId": place.name, "tags": ["site"], "summary": place.summary}
    if place.open:
        described["security"] = []
    described["parameters"] = [
        *({**_parameter(name, "path", schema), "required": True} for name, schema in place.parameters.items()),
        *(_parameter(name, "query", schema) for name, schema in place.query.items()),
        ref("parameters", "RequestId"),
        ref("parameters", "CorrelationId"),
    ]
    described["responses"] = {str(answer.status): _site_answer(answer, catalogue) for answer in place.answers}
    described["responses"] |= {str(status): error_ref(status) for status in sorted(statuses)}
    return described


def _site_answer(answer: SiteAnswer, catalogue: Catalogue) -> Json:
    made: Json = {"description": answer.description, "headers": header_refs("X-Request-ID", *answer.headers)}
    for media_type, model in answer.content.items():
        media: Json = {"schema": catalogue.output(model) if isinstance(model, type) else model}
        if answer.example is not None:
            media["example"] = answer.example
        made.setdefault("content", {})[media_type] = media
    return made
