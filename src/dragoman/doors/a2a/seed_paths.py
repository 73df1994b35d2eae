"""The plain paths of A2A 0.1: a task for each call, or the same in a JSON-RPC envelope."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote

import structlog

from dragoman.doors.a2a.calls import Call, Calls, Events
from dragoman.doors.a2a.errors import ParseFailed, to_http_error, wire_of
from dragoman.doors.a2a.jsonrpc import MEDIA_TYPES, read_method, read_rpc_id, send_rpc, unknown
from dragoman.doors.a2a.negotiation import PLAIN
from dragoman.doors.a2a.requests import Headers, Json, Request, parse
from dragoman.doors.a2a.seed_calls import SeedCalls
from dragoman.doors.a2a.streaming import send_events
from dragoman.doors.a2a.wire_01 import failure_01
from dragoman.errors import DragomanError, Internal, InvalidInput, MethodNotAllowed, NotFound, UnsupportedMedia
from dragoman.infra.edge import Send

_LOG = structlog.get_logger(__name__)
SEED_PREFIX: Final = "/tasks/"
SEND_PATH: Final = "/tasks/send"
_SEND, _SUBSCRIBE, _GET, _CANCEL = "tasks/send", "tasks/sendSubscribe", "tasks/get", "tasks/cancel"


@dataclass(frozen=True, slots=True)
class _Found:
    """The call behind a path; `params` come from the path and win over the body."""

    route: str
    verb: str
    name: str
    params: Json = field(default_factory=dict[str, Any])


class SeedPaths:
    """Finds the call by its path; what goes wrong outside an envelope is a problem document of the edge."""

    def __init__(self, calls: Calls) -> None:
        seed = SeedCalls(calls)
        self._answers: dict[str, Callable[[Call], Awaitable[Json]]] = {
            _SEND: seed.send,
            _GET: seed.get,
            _CANCEL: seed.cancel,
        }
        self._streams: dict[str, Callable[[Call], Awaitable[Events]]] = {
            _SUBSCRIBE: seed.send_subscribe,
            "tasks/resubscribe": seed.resubscribe,
        }

    async def serve(self, request: Request, send: Send) -> None:
        """Answer one request."""
        found = _find(request.scope["raw_path"].decode("latin-1").partition("?")[0])
        request.context.route = found.route
        if request.scope["method"] != found.verb:
            raise MethodNotAllowed(request.scope["method"], [found.verb])
        _, answered = request.negotiate(served=PLAIN, silent=PLAIN[0])
        given = await _read_body(request) if found.verb == "POST" else dict(request.query)
        if not found.params and "jsonrpc" in given:
            await self._serve_envelope(request, send, answered, given)
            return
        call = request.call({**given, **found.params})
        if (stream := self._streams.get(found.name)) is None:
            await send_rpc(send, answered, await self._answers[found.name](call))
            return
        await send_events(
            await stream(call),
            request.receive,
            send,
            answered,
            frame=lambda event: event,
            fail=lambda error: to_http_error(error)[1],
        )

    async def _serve_envelope(self, request: Request, send: Send, answered: Headers, body: Json) -> None:
        rpc_id = read_rpc_id(body)
        try:
            method, params = read_method(body)
            if (stream := self._streams.get(method)) is None:
                result = await self._answers.get(method, unknown(method))(request.call(params))
                await send_rpc(send, answered, {"jsonrpc": "2.0", "id": rpc_id, "result": result})
                return
            events = await stream(request.call(params))
        except DragomanError as error:
            if wire_of(error).by_http:
                raise
            await send_rpc(send, answered, failure_01(rpc_id, error))
            return
        except Exception:  # noqa: BLE001 - an edge: nothing unforeseen may reach the wire
            _LOG.exception("a2a.call_failed")
            await send_rpc(send, answered, failure_01(rpc_id, Internal()))
            return
        await send_events(
            events,
            request.receive,
            send,
            answered,
            frame=lambda event: {"jsonrpc": "2.0", "id": rpc_id, "result": event},
            fail=lambda error: failure_01(rpc_id, error),
        )


def _find(path: str) -> _Found:
    match path.split("/")[2:]:
        case ["send"]:
            return _Found(SEND_PATH, "POST", _SEND)
        case ["sendSubscribe"]:
            return _Found("/tasks/sendSubscribe", "POST", _SUBSCRIBE)
        case [ref, "get"] if ref:
            return _Found("/tasks/{id}/get", "GET", _GET, {"id": unquote(ref)})
        case [ref, "send"] if ref:
            return _Found("/tasks/{id}/send", "POST", _SEND, {"id": None, "taskId": unquote(ref)})
        case [ref, "cancel"] if ref:
            return _Found("/tasks/{id}/cancel", "POST", _CANCEL, {"id": unquote(ref)})
        case _:
            raise NotFound("path", path[:200])


async def _read_body(request: Request) -> Json:
    body = await request.read()
    if not body and request.context.route == "/tasks/{id}/cancel":
        return {}
    if request.media_type not in MEDIA_TYPES:
        raise UnsupportedMedia(request.media_type[:100], expected="application/json")
    try:
        given = parse(body)
    except ParseFailed as error:
        raise InvalidInput.of("body", error.message) from None
    if not isinstance(given, dict):
        raise InvalidInput.of("body", "must be an object")
    return cast("Json", given)
