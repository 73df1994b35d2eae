"""The JSON-RPC binding: one address, the method in the body."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import orjson
import structlog

from dragoman.doors.a2a.calls import Call, Calls
from dragoman.doors.a2a.calls_03 import Calls03
from dragoman.doors.a2a.card import RPC_PATH
from dragoman.doors.a2a.errors import (
    ContentTypeNotSupported,
    InvalidRequest,
    MethodNotFound,
    to_rpc_error,
    wire_of,
)
from dragoman.doors.a2a.negotiation import OLDER, VERSION
from dragoman.doors.a2a.requests import Headers, Json, Request, parse
from dragoman.doors.a2a.streaming import send_events
from dragoman.errors import DragomanError, Internal, MethodNotAllowed
from dragoman.infra.edge import Send

_LOG = structlog.get_logger(__name__)
_JSON: Final = (b"content-type", b"application/json")
_FRESH: Final = (b"cache-control", b"no-store")
MEDIA_TYPES: Final = frozenset({"application/json", "application/a2a+json"})


class JsonRpc:
    """Answers with HTTP 200 whatever becomes of the call, except where HTTP itself has the better word."""

    def __init__(self, calls: Calls) -> None:
        self._versions: dict[str, Calls | Calls03] = {VERSION: calls, OLDER: Calls03(calls)}

    async def serve(self, request: Request, send: Send) -> None:
        """Answer one request."""
        rpc_id: str | int | float | None = None
        answered: Headers = []
        try:
            _check_head(request)
            body = parse(await request.read())
            rpc_id = read_rpc_id(body)
            method, params = read_method(body)
            # Who does not say a version is known by the names of the methods: 0.3 has a slash in each.
            version, answered = request.negotiate(
                served=tuple(self._versions), silent=OLDER if "/" in method else VERSION
            )
            calls = self._versions[version]
            known = method in calls.answers or method in calls.streams
            request.context.route = f"{RPC_PATH} {method}" if known else RPC_PATH
            if (stream := calls.streams.get(method)) is None:
                result = await calls.answers.get(method, unknown(method))(request.call(params))
                await send_rpc(send, answered, {"jsonrpc": "2.0", "id": rpc_id, "result": result})
                return
            events = await stream(request.call(params))
        except DragomanError as error:
            if wire_of(error).by_http:
                raise
            await send_rpc(send, answered, failure(rpc_id, error))
            return
        except Exception:  # noqa: BLE001 - an edge: nothing unforeseen may reach the wire
            _LOG.exception("a2a.call_failed")
            await send_rpc(send, answered, failure(rpc_id, Internal()))
            return
        await send_events(
            events,
            request.receive,
            send,
            answered,
            frame=lambda result: {"jsonrpc": "2.0", "id": rpc_id, "result": result},
            fail=lambda error: failure(rpc_id, error),
        )


def _check_head(request: Request) -> None:
    """The media type before the body: what is not declared as JSON is not read as JSON."""
    if request.scope["method"] != "POST":
        raise MethodNotAllowed(request.scope["method"], ["POST"])
    if request.media_type not in MEDIA_TYPES:
        raise ContentTypeNotSupported("send application/json", media_type=request.media_type[:100])


def unknown(method: str) -> Callable[[Call], Awaitable[Json]]:
    """What answers a method that there is not."""

    async def refuse(call: Call) -> Json:
        del call
        raise MethodNotFound(method)

    return refuse


def read_rpc_id(body: Any) -> str | int | float | None:
    """The id to answer with."""
    rpc_id = cast("Json", body).get("id") if isinstance(body, dict) else None
    return rpc_id if isinstance(rpc_id, str | int | float) and not isinstance(rpc_id, bool) else None


def read_method(body: Any) -> tuple[str, Any]:
    """The method and its params.

    Raises:
        InvalidRequest: the body is no request.
    """
    if isinstance(body, list):
        raise InvalidRequest("batches are not served; send one request at a time")
    if not isinstance(body, dict):
        raise InvalidRequest("a request is an object")
    request = cast("Json", body)
    if request.get("jsonrpc") != "2.0":
        raise InvalidRequest('jsonrpc must be "2.0"')
    given = request.get("id")
    if given is not None and (isinstance(given, bool) or not isinstance(given, str | int | float)):
        raise InvalidRequest("id must be text or a number")
    method = request.get("method")
    if not isinstance(method, str) or not method:
        raise InvalidRequest("method must be text")
    params = request.get("params")
    return method, {} if params is None else params


def failure(rpc_id: str | float | None, error: DragomanError) -> Json:
    """The response to a call that failed."""
    return {"jsonrpc": "2.0", "id": rpc_id, "error": to_rpc_error(error)}


async def send_rpc(send: Send, answered: Headers, body: Json) -> None:
    """A whole response."""
    payload = orjson.dumps(body)
    headers = [_JSON, (b"content-length", str(len(payload)).encode()), _FRESH, *answered]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": payload})
