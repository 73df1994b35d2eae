"""The REST door: find the binding, decode, run the gate, encode."""

from collections.abc import Iterable
from typing import Any

from dragoman.context import Caller, RequestContext
from dragoman.doors.rest.wire import read_etag, read_json, read_query, reply
from dragoman.errors import InvalidInput, MethodNotAllowed, NotFound, Unauthenticated
from dragoman.gate import Gate
from dragoman.infra.edge import Answer, AsgiScope, Receive, Send, exchange, read_body
from dragoman.operations import Binding


class RestDoor:
    """Plain ASGI: a table look-up and three statements a request."""

    def __init__(self, gate: Gate, bindings: Iterable[Binding]) -> None:
        self._gate = gate
        self._table: dict[tuple[str, ...], dict[str, Binding]] = {}
        self._parameters: dict[str, tuple[str, ...]] = {}
        for binding in bindings:
            pattern = tuple("*" if part.startswith("{") else part for part in binding.path.split("/"))
            self._table.setdefault(pattern, {})[binding.method] = binding
            self._parameters[binding.path] = binding.parameters

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await exchange("rest", self._answer, scope, receive, send)

    async def _answer(self, scope: AsgiScope, receive: Receive, request: RequestContext) -> Answer:
        # An encoded slash is part of a name and no separator, or a proxy that guards a path could be led around it.
        if b"%2f" in scope["raw_path"].lower():
            raise NotFound("path", scope["path"][:200])
        binding, path = self._find(scope["method"], scope["path"], request)
        caller = _require(request.caller)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _READ}
        if binding.method == "GET":
            raw = read_query(scope["query_string"], path)
        else:
            if scope["query_string"]:
                raise InvalidInput.of("query", "is not read here; put it into the body")
            extra = path | _precondition(binding, headers.get(b"if-match"))
            raw = read_json(await read_body(receive), headers.get(b"content-type", ""), extra)
        output = await self._gate.run(binding.operation, caller, raw, idempotency_key=headers.get(b"idempotency-key"))
        return reply(binding, output, request.id)

    def _find(self, method: str, path: str, request: RequestContext) -> tuple[Binding, dict[str, Any]]:
        parts = path.split("/")
        which = parts[3] if len(parts) > 3 else ""
        by_method = self._table.get(tuple(parts))
        if by_method is None and which:
            # In every address of ours, what varies stands third: /api/<noun>/<which>/<verb>.
            parts[3] = "*"
            by_method = self._table.get(tuple(parts))
        if by_method is None or path.endswith("/"):
            raise NotFound("path", path[:200])
        binding = by_method.get("GET" if method == "HEAD" else method)
        request.route = next(iter(by_method.values())).path
        if binding is None:
            raise MethodNotAllowed(method, [*by_method, *(["HEAD"] if "GET" in by_method else [])])
        return binding, dict.fromkeys(self._parameters[binding.path], which)


_READ = frozenset({b"content-type", b"if-match", b"idempotency-key"})


def _precondition(binding: Binding, if_match: str | None) -> dict[str, Any]:
    """The version that must still be the present one; a condition that would not be kept is refused."""
    if "expected_version" in binding.operation.input.model_fields:
        return {"expected_version": read_etag(if_match) if if_match is not None else None}
    if if_match is not None:
        raise InvalidInput.of("If-Match", "is not possible here")
    return {}


def _require(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthenticated("no caller", presented=False)
    return caller
