"""The plain paths of A2A 0.1: a task for each call, or the same in a JSON-RPC envelope."""

from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote

from dragoman.doors.a2a.calls import Calls
from dragoman.doors.a2a.envelope import send_json, serve_envelope
from dragoman.doors.a2a.errors import ParseFailed, to_http_error
from dragoman.doors.a2a.jsonrpc import MEDIA_TYPES
from dragoman.doors.a2a.negotiation import PLAIN
from dragoman.doors.a2a.requests import Headers, Json, Request
from dragoman.doors.a2a.seed_calls import SeedCalls
from dragoman.doors.a2a.streaming import send_events
from dragoman.doors.a2a.wire_01 import rpc_error_01
from dragoman.errors import InvalidInput, MethodNotAllowed, NotFound, UnsupportedMedia
from dragoman.infra.edge import Send

SEED_PREFIX: Final = "/tasks/"
SEND_PATH: Final = "/tasks/send"


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
        self._calls = SeedCalls(calls)

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
        if (stream := self._calls.streams.get(found.name)) is None:
            await send_json(send, answered, await self._calls.answers[found.name](call))
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
        async def read() -> Json:
            return body

        await serve_envelope(request, send, read=read, choose=lambda _: (self._calls, answered), show=rpc_error_01)


def _find(path: str) -> _Found:
    match path.split("/")[2:]:
        case ["send"]:
            return _Found(SEND_PATH, "POST", "tasks/send")
        case ["sendSubscribe"]:
            return _Found("/tasks/sendSubscribe", "POST", "tasks/sendSubscribe")
        case [ref, "get"] if ref:
            return _Found("/tasks/{id}/get", "GET", "tasks/get", {"id": unquote(ref)})
        case [ref, "send"] if ref:
            return _Found("/tasks/{id}/send", "POST", "tasks/send", {"id": None, "taskId": unquote(ref)})
        case [ref, "cancel"] if ref:
            return _Found("/tasks/{id}/cancel", "POST", "tasks/cancel", {"id": unquote(ref)})
        case _:
            raise NotFound("path", path[:200])


async def _read_body(request: Request) -> Json:
    body = await request.read()
    if not body and request.context.route == "/tasks/{id}/cancel":
        return {}
    if request.media_type not in MEDIA_TYPES:
        raise UnsupportedMedia(request.media_type[:100], expected="application/json")
    try:
        given = request.parse(body)
    except ParseFailed as error:
        raise InvalidInput.of("body", error.message) from None
    if not isinstance(given, dict):
        raise InvalidInput.of("body", "must be an object")
    return cast("Json", given)
