"""An OpenAPI document, read into operations that can be called. No network in here."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, urljoin

METHODS: Final = ("get", "put", "post", "delete", "patch", "head")
_DEEPEST_REFERENCE = 20


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument and where it goes."""

    name: str
    place: str
    required: bool
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation of the document."""

    name: str
    description: str
    method: str
    path: str
    parameters: tuple[Parameter, ...]
    body: dict[str, Any] | None
    body_required: bool

    @property
    def input_schema(self) -> dict[str, Any]:
        """Its parameters by name, and the JSON body as `body`."""
        properties = {one.name: one.schema for one in self.parameters}
        required = [one.name for one in self.parameters if one.required]
        if self.body is not None:
            properties["body"] = self.body
            required += ["body"] if self.body_required else []
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def complaints(self, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """What is missing, unknown or unsafe; the rest is the server's to judge."""
        schema = self.input_schema
        yield from ((name, "is required") for name in schema["required"] if name not in arguments)
        yield from ((name, "is unknown") for name in arguments if name not in schema["properties"])
        for one in self.parameters:
            # No escape keeps these from climbing up the path: they mean the same when they are escaped.
            if one.place == "path" and one.name in arguments and _plain(arguments[one.name]) in ("", ".", ".."):
                yield one.name, "must not be empty or dots"

    def filled_path(self, arguments: Mapping[str, Any]) -> str:
        """The path with its parameters, escaped so that none of them can leave its place."""
        path = self.path
        for one in self.parameters:
            if one.place == "path":
                path = path.replace(f"{{{one.name}}}", quote(_plain(arguments[one.name]), safe=""))
        return path

    def sent_as(self, place: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of one place."""
        names = [one.name for one in self.parameters if one.place == place and arguments.get(one.name) is not None]
        return {name: arguments[name] if place == "query" else _plain(arguments[name]) for name in names}


class Document:
    """What a document says, with its references followed."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        if not str(document.get("openapi", "")).startswith("3."):
            raise ValueError("an OpenAPI document of version 3 is needed")
        self._document = document

    def base_url(self, found_at: str | None) -> str | None:
        """The first server that it names; a relative one is relative to where the document was found."""
        servers: list[dict[str, Any]] = self._document.get("servers") or []
        url = str(servers[0].get("url", "")) if servers else ""
        absolute = urljoin(found_at or "", url)
        return absolute.rstrip("/") if absolute.startswith(("http://", "https://")) else None

    def operations(self) -> Iterator[ApiOperation]:
        """All of them, in the order of the document."""
        paths: dict[str, dict[str, Any]] = self._document.get("paths") or {}
        for path, item in paths.items():
            for method in METHODS:
                if method in item:
                    yield self._operation(path, method, item, item[method])

    def _operation(self, path: str, method: str, item: dict[str, Any], told: dict[str, Any]) -> ApiOperation:
        listed = [*item.get("parameters", ()), *told.get("parameters", ())]
        parameters = {one.name: one for one in map(self._parameter, listed) if one.place in ("path", "query", "header")}
        body = self._resolved(told.get("requestBody") or {})
        schema = body.get("content", {}).get("application/json", {}).get("schema")
        words = told.get("description") or told.get("summary") or f"{method.upper()} {path}"
        return ApiOperation(
            name=_tool_name(told.get("operationId") or f"{method}_{path}"),
            description=str(words),
            method=method.upper(),
            path=path,
            parameters=tuple(parameters.values()),
            body=None if schema is None else self._resolved(schema),
            body_required=bool(body.get("required")),
        )

    def _parameter(self, told: dict[str, Any]) -> Parameter:
        told = self._resolved(told)
        schema = dict(told.get("schema") or {})
        if "description" in told:
            schema.setdefault("description", told["description"])
        place = str(told["in"])
        return Parameter(str(told["name"]), place, bool(told.get("required")) or place == "path", schema)

    def _resolved(self, value: Any, depth: int = 0) -> Any:
        """The value with local references put in their place; a type that contains itself is cut off at some depth."""
        if isinstance(value, list):
            return [self._resolved(one, depth) for one in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        known = cast("dict[str, Any]", value)
        reference = known.get("$ref")
        if isinstance(reference, str):
            return {} if depth >= _DEEPEST_REFERENCE else self._resolved(self._find(reference), depth + 1)
        return {name: self._resolved(one, depth) for name, one in known.items()}

    def _find(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise ValueError(f"the reference {reference!r} leaves the document, which is not followed")
        found: Any = self._document
        for step in reference[2:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise ValueError(f"the reference {reference!r} leads nowhere")
            found = cast("Mapping[str, Any]", found)[key]
        return found


def _tool_name(given: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", given).strip("_")[:64]
    return name if re.match(r"[A-Za-z_]", name) else f"op_{name}"[:64]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
