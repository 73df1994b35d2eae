"""Made-up values that fit a JSON schema: the same ones every time, so that two documents can be compared."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from dragoman.operations import AnyOperation

Json = dict[str, Any]

ID: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
TIME: Final = "2026-01-15T09:30:00Z"
_HASH: Final = "0123456789abcdef" * 4
_FORMATS: Final = {
    "uuid": ID,
    "date-time": TIME,
    "date": TIME[:10],
    "uri": "https://example.com/",
    "email": "ada@example.com",
    "binary": "...",
}
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
    "boolean": bool,
}
# What a field of this name looks like where neither its schema nor an example of its noun says so.
_LOOKS: Final[dict[str, Any]] = {
    "body": "eyJvcGVyYXRpb24iOiJ1c2VyLmludml0ZSJ9",
    "created_by": "ada@example.com",
    "credential": ID,
    "door": "rest",
    "email": "ada@example.com",
    "hash": _HASH,
    "head": {
        "tenant": ID,
        "seq": 42,
        "hash": _HASH,
        "sealed_at": TIME,
        "key_id": "8f3c2a10",
        "signature": _HASH * 2,
    },
    "hint": "dgm_01890a...cdef",
    "id": ID,
    "input_sha256": _HASH,
    "invitation": "inv_Zm9yLWFkYS1hbG9uZS1zaG93bi10aGlzLW9uY2U",
    "invitation_expires_at": "2026-01-22T09:30:00Z",
    "mac": _HASH,
    "name": "Ada Lovelace",
    "operation": "user.invite",
    "principal_type": "service",
    "problems": [],
    "public_key": "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
    "request_id": ID,
    "resource": ID,
    "roles": ["org_admin"],
    "scopes": ["read:costs"],
    "secret": f"dgm_{ID.replace('-', '')}_{_HASH}",
    "seq": 42,
    "slug": "acme",
    "subject": "ada@example.com",
    "tenant": "acme",
    "token": "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZGFAZXhhbXBsZS5jb20ifQ.c2lnbmF0dXJl",
    "unsealed": 0,
}
# What a verb leaves behind: the answer to `tenant.suspend` shows a suspended tenant.
_LEFT_BY: Final[dict[str, Json]] = {
    "delete": {"status": "deleted"},
    "disable": {"status": "disabled"},
    "invite": {"status": "invited"},
    "revoke": {"revoked_at": TIME},
    "suspend": {"status": "suspended"},
}
_LIVE: Final[Json] = {"status": "active"}


def known_values(operation: AnyOperation, operations: Iterable[AnyOperation]) -> Json:
    """Values by field name for an operation's answer: from its own example, then from those of its noun."""
    verb = operation.name.rpartition(".")[2]
    known: Json = _LIVE | _LEFT_BY.get(verb, {}) | operation.example
    for other in operations:
        if other.noun == operation.noun:
            known = other.example | known
    return known


class Examples:
    """Makes examples; `schemas` are the components that a `$ref` may name."""

    def __init__(self, schemas: Mapping[str, Json], known: Mapping[str, Any]) -> None:
        self._schemas = schemas
        self._hints = {**_LOOKS, **known}

    def of(self, schema: Json, name: str = "") -> Any:
        """A value for a field of this name."""
        if "examples" in schema:
            return schema["examples"][0]
        if "const" in schema:
            return schema["const"]
        if "$ref" in schema:
            return self.of(self._schemas[schema["$ref"].rpartition("/")[2]], name)
        if "enum" in schema:
            hint = self._hints.get(name)
            return hint if hint in schema["enum"] else schema.get("default", schema["enum"][0])
        if (branches := schema.get("anyOf", schema.get("oneOf"))) is not None:
            return self._one_of(branches, name)
        return self._typed(schema, name)

    def _one_of(self, branches: list[Json], name: str) -> Any:
        nullable = {"type": "null"} in branches
        # Null is what most optional fields are most of the time: a live key has no `revoked_at`.
        if nullable and name not in self._hints:
            return None
        first = next(branch for branch in branches if branch != {"type": "null"})
        return self._hints[name] if nullable and "format" in first else self.of(first, name)

    def _typed(self, schema: Json, name: str) -> Any:
        kind = schema.get("type", "object")
        hint = self._hints.get(name)
        if isinstance(kind, list):
            kind = cast("list[str]", kind)[0]
        if "properties" in schema:
            return {field: self.of(inner, field) for field, inner in schema["properties"].items()}
        inner: Any = schema.get("additionalProperties")
        if isinstance(inner, dict) and "$ref" in inner and isinstance(hint, dict):
            # An answer shows all of each, where a question may leave out what is usual.
            return {key: self.of(cast("Json", inner)) | value for key, value in cast("Json", hint).items()}
        if "format" not in schema and hint is not None and isinstance(hint, _TYPES[kind]) and self._fits(schema, hint):
            return hint
        if "default" in schema:
            return schema["default"]
        if kind == "array":
            return [self.of(schema.get("items", {}), name)]
        made = {
            "string": _FORMATS.get(schema.get("format", ""), name or "text"),
            "integer": schema.get("minimum", 1),
            "number": schema.get("minimum", 1.5),
            "boolean": True,
        }
        return made.get(kind, {})

    def _fits(self, schema: Json, hint: Any) -> bool:
        """Check that a list of names, as a question gives it, does not stand for a list of objects of an answer."""
        reference: str = schema.get("items", {}).get("$ref", "")
        of_objects = "properties" in self._schemas.get(reference.rpartition("/")[2], {})
        return not of_objects or all(isinstance(item, dict) for item in hint)
