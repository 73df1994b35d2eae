"""A call in a JSON-RPC envelope, of whichever version: opened, answered, closed."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import orjson
import structlog

from dragoman.doors.a2a.calls import Call, Methods
from dragoman.doors.a2a.errors import InvalidRequest, MethodNotFound, wire_of
from dragoman.doors.a2a.requests import Headers, Json, Request
from dragoman.doors.a2a.streaming import send_events
from dragoman.errors import DragomanError, Internal
from dragoman.infra.edge import Send
from dragoman.jsontext import UnfitJson, rpc_id_of

_LOG = structlog.get_logger(__name__)
_JSON: Final = (b"content-type", b"application/json")
_FRESH: Final = (b"cache-control", b"no-store")
RpcId = str | int | float | None


async def serve_envelope(
    request: Request,
    send: Send,
    *,
    read: Callable[[], Awaitable[Any]],
    choose: Callable[[str], tuple[Methods, Headers]],
    show: Callable[[DragomanError], Json],
) -> None:
    """Answer the call that `read` finds, by the methods that `choose` has for its name; `show` writes an error.

    Raises:
        DragomanError: HTTP itself has the better word for it.
    """
    rpc_id: RpcId = None
    answered: Headers = []

    def close(result: Json) -> Json:
        return {"jsonrpc": "2.0", "id": rpc_id, "result": result}

    def fail(error: DragomanError) -> Json:
        return {"jsonrpc": "2.0", "id": rpc_id, "error": show(error)}

    try:
        body = await read()
        rpc_id = rpc_id_of(body)
        method, params = _read_method(body)
        methods, answered = choose(method)
        if (stream := methods.streams.get(method)) is None:
            result = await methods.answers.get(method, _unknown(method))(request.call(params))
            await send_json(send, answered, close(result))
            return
        events = await stream(request.call(params))
    except DragomanError as error:
        if isinstance(error, UnfitJson):
            rpc_id = rpc_id_of(error.value)
        if wire_of(error).by_http:
            raise
        request.context.refusal = error
        await send_json(send, answered, fail(error))
        return
    except Exception:  # noqa: BLE001 - an edge: nothing unforeseen may reach the wire
        _LOG.exception("a2a.call_failed")
        await send_json(send, answered, fail(Internal()))
        return
    await send_events(events, request.receive, send, answered, frame=close, fail=fail)


async def send_json(send: Send, answered: Headers, body: Json) -> None:
    """A whole response."""
    payload = orjson.dumps(body)
    headers = [_JSON, (b"content-length", str(len(payload)).encode()), _FRESH, *answered]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": payload})


def _unknown(method: str) -> Callable[[Call], Awaitable[Json]]:
    async def refuse(call: Call) -> Json:
        del call
        raise MethodNotFound(method)

    return refuse


def _read_method(body: Any) -> tuple[str, Any]:
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
