"""The door of the agent gateway: read-only operations for agents that come by mTLS with a key.

A query is an operation with its arguments, as a tool call or in an A2A message; the answer is an A2A task that is over.
Nothing of it is stored: what a query reads is in the audit trail of whoever wrote it.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final, Protocol, cast

import orjson

from dragoman.context import Caller, RequestContext
from dragoman.errors import FieldError, InvalidInput, MethodNotAllowed, NotFound, UnsupportedMedia
from dragoman.gate import Gate
from dragoman.infra.edge import Answer, AsgiScope, Receive, Send, exchange, read_body
from dragoman.infra.ids import new_text_id
from dragoman.jsontext import parse_json
from dragoman.operations import AnyOperation, Passage, RateClass

PREFIX: Final = "/a2a/v1/"
QUERY_PATH: Final = f"{PREFIX}query"
CAPABILITIES_PATH: Final = f"{PREFIX}capabilities"
# Whoever is let in may ask what they may do, as over REST.
LOOK: Final = Passage("identity.show", "read:identity", RateClass.POLL)
_JSON: Final = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
Json = dict[str, Any]


class Tools(Protocol):
    """Knows the operations by their names as tools."""

    def __iter__(self) -> Any:
        """Give every operation."""
        ...

    def find(self, name: str) -> AnyOperation | None:
        """Return the operation of this name."""
        ...


class GatewayDoor:
    """Answers `/a2a/v1/query` and `/a2a/v1/capabilities`; `default` is the tool behind a bare `query`."""

    def __init__(
        self, gate: Gate, tools: Tools, may: Callable[[Caller, AnyOperation], bool], *, default: str, per_min: int
    ) -> None:
        self._gate = gate
        self._tools = tools
        self._may = may
        self._default = default
        self._per_min = per_min

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await exchange("gateway", self._answer, scope, receive, send)

    async def _answer(self, scope: AsgiScope, receive: Receive, request: RequestContext) -> Answer:
        path, method = scope["path"], scope["method"]
        routes = {QUERY_PATH: ("POST", self._query), CAPABILITIES_PATH: ("GET", self._capabilities)}
        if path not in routes:
            raise NotFound("path", path[:200])
        request.route = path
        allowed, answer = routes[path]
        if method != allowed:
            raise MethodNotAllowed(method, [allowed])
        caller = cast("Caller", request.caller)
        body = await read_body(receive)
        if method == "POST" and not request.headers.get(b"content-type", "").startswith("application/json"):
            raise UnsupportedMedia(request.headers.get(b"content-type", "")[:100], expected="application/json")
        return 200, _JSON, orjson.dumps(await answer(caller, body, request))

    async def _query(self, caller: Caller, body: bytes, request: RequestContext) -> Json:
        name, arguments = self._read(body)
        operation = self._tools.find(name)
        if operation is None or operation.writes:
            raise NotFound("query", name[:100])
        started = perf_counter()
        output = await self._gate.run(operation, caller, arguments)
        took_ms = round((perf_counter() - started) * 1000, 1)
        return _task(name, output.model_dump(mode="json"), request, took_ms)

    async def _capabilities(self, caller: Caller, _: bytes, request: RequestContext) -> Json:
        await self._gate.guard(LOOK, caller)
        return {
            "requestId": request.id,
            "agent": {"id": caller.subject, "tenant": caller.tenant_slug, "scopes": sorted(caller.scopes or ())},
            "limits": {"queriesPerMinute": caller.per_min or self._per_min},
            "query": self._default or None,
            "skills": [_skill(one) for one in _readable(self._tools, caller, self._may)],
        }

    def _read(self, body: bytes) -> tuple[str, Json]:
        """Return the tool and its arguments.

        Raises:
            InvalidInput: the body is none of the shapes that are taken.
        """
        given = parse_json(body) if body else None
        if not isinstance(given, dict):
            raise InvalidInput.of("body", "must be a JSON object")
        asked = cast("Json", given)
        if isinstance(asked.get("message"), dict):
            asked = _data_part(asked["message"])
        name, arguments = asked.get("tool", self._default), asked.get("arguments", asked.get("query"))
        errors: list[FieldError] = []
        if not isinstance(name, str) or not name:
            errors.append(FieldError(field="tool", message="must name a tool; see /a2a/v1/capabilities"))
        if not isinstance(arguments, dict):
            errors.append(FieldError(field="query", message="must be an object: the arguments of the tool"))
        if errors:
            raise InvalidInput(errors)
        return cast("str", name), cast("Json", arguments)


def _data_part(message: Json) -> Json:
    parts = message.get("parts")
    for part in cast("list[object]", parts) if isinstance(parts, list) else []:
        if isinstance(part, dict) and isinstance(data := cast("Json", part).get("data"), dict):
            return cast("Json", data)
    raise InvalidInput.of("message.parts", 'must have a data part such as {"data": {"tool": ..., "arguments": {...}}}')


def _task(name: str, output: Json, request: RequestContext, took_ms: float) -> Json:
    """Return a query that was answered as an A2A task that is completed."""
    return {
        "task": {
            "id": request.id,
            "contextId": new_text_id(),
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": datetime.now(UTC).isoformat()},
            "artifacts": [{"artifactId": "result", "name": name, "parts": [{"data": output}]}],
            "metadata": {"requestId": request.id, "usage": {"tokensUsed": 0, "responseTimeMs": took_ms}},
        }
    }


def _readable(
    operations: Iterable[AnyOperation], caller: Caller, may: Callable[[Caller, AnyOperation], bool]
) -> list[AnyOperation]:
    return [one for one in operations if not one.writes and may(caller, one)]


def _skill(operation: AnyOperation) -> Json:
    return {
        "tool": operation.tool,
        "description": operation.description or operation.summary,
        "inputSchema": operation.input.model_json_schema(),
        "outputSchema": operation.output.model_json_schema(),
    }
