"""The REST door: find the binding, decode, run the gate, encode."""

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.addresses import Binding
from dragoman.context import Caller, RequestContext, current_request
from dragoman.doors.rest.wire import read_body, read_etag, read_json, read_query, reply
from dragoman.errors import DragomanError, MethodNotAllowed, NotFound, Unauthenticated
from dragoman.gate import Gate
from dragoman.infra.edge import AsgiScope, Receive, Send, problem


class RestDoor:
    """Plain ASGI: a table look-up and three statements a request."""

    def __init__(self, gate: Gate, bindings: Iterable[Binding]) -> None:
        self._gate = gate
        self._table: dict[tuple[str, ...], dict[str, Binding]] = {}
        for binding in bindings:
            pattern = tuple("*" if part.startswith("{") else part for part in binding.path.split("/"))
            self._table.setdefault(pattern, {})[binding.method] = binding

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = current_request() or RequestContext(id="", door="rest")
        request.door = "rest"
        try:
            status, headers, body = await self._answer(scope, receive, request)
        except DragomanError as error:
            status, headers, body = problem(error, request.id)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, scope: AsgiScope, receive: Receive, request: RequestContext
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        binding, path = self._find(scope["method"], scope["path"], request)
        caller = _require(request.caller)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _READ}
        if binding.method == "GET":
            given = read_query(binding.operation.input, scope["query_string"], path)
        else:
            extra: dict[str, Any] = dict(path)
            if "expected_version" in binding.operation.input.model_fields and b"if-match" in headers:
                extra["expected_version"] = read_etag(headers[b"if-match"])
            body = await read_body(receive)
            given = read_json(binding.operation.input, body, headers.get(b"content-type", ""), extra)
        output = await self._gate.run(binding.operation, caller, given, idempotency_key=headers.get(b"idempotency-key"))
        return reply(binding, output, request.id)

    def _find(self, method: str, path: str, request: RequestContext) -> tuple[Binding, Mapping[str, str]]:
        parts = path.split("/")
        by_method = self._table.get(tuple(parts))
        if by_method is None and len(parts) > 3:
            # In every address of ours, what varies stands third: /api/<noun>/<which>/<verb>.
            parts[3] = "*"
            by_method = self._table.get(tuple(parts))
        if by_method is None or path.endswith("/"):
            raise NotFound("path", path[:200])
        binding = by_method.get("GET" if method == "HEAD" else method)
        request.route = next(iter(by_method.values())).path
        if binding is None:
            raise MethodNotAllowed(method, list(by_method))
        return binding, dict.fromkeys(binding.parameters, path.split("/")[3]) if binding.parameters else {}


_READ = frozenset({b"content-type", b"if-match", b"idempotency-key"})


def _require(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthenticated("no caller", presented=False)
    return caller
