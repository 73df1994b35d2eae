"""The HTTP+JSON binding: the method is in the address, errors are as AIP-193 has them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import orjson
import structlog

from dragoman.doors.a2a.calls import Call, Calls, Events
from dragoman.doors.a2a.card import REST_PATH
from dragoman.doors.a2a.errors import ContentTypeNotSupported, to_http_error
from dragoman.doors.a2a.requests import Headers, Json, Request
from dragoman.doors.a2a.streaming import send_events
from dragoman.errors import DragomanError, Internal, InvalidInput, MethodNotAllowed, NotFound, Unauthenticated
from dragoman.infra.edge import Send

_LOG = structlog.get_logger(__name__)
_A2A_JSON: Final = "application/a2a+json"
_MEDIA_TYPES: Final = ("application/json", _A2A_JSON)


@dataclass(frozen=True, slots=True)
class _Found:
    """The method behind an address; `params` come from its path."""

    route: str
    methods: dict[str, str]
    params: Json

    def method(self, verb: str) -> str:
        """The method of A2A for this verb of HTTP.

        Raises:
            MethodNotAllowed: there is none.
        """
        name = self.methods.get(verb)
        if name is None:
            raise MethodNotAllowed(verb, list(self.methods))
        return name


class RestBinding:
    """Finds the method by its address."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def serve(self, request: Request, send: Send) -> None:
        """Answer one request."""
        answered: Headers = []
        media_type = _answer_type(request)
        try:
            found = _find(request.scope["raw_path"].decode("latin-1").partition("?")[0][len(REST_PATH) :])
            request.context.route = REST_PATH + found.route
            name = found.method(request.scope["method"])
            _, answered = request.negotiate()
            call = request.call(await self._params(request, found))
            stream: Callable[[Call], Awaitable[Events]] | None = self._calls.streams.get(name)
            if stream is None:
                body = await self._calls.answers[name](call)
                await _send(send, 200, answered, body, media_type)
                return
            events = await stream(call)
        except DragomanError as error:
            request.context.refusal = error
            await _refuse(send, answered, error, media_type)
            return
        except Exception:  # noqa: BLE001 - an edge: nothing unforeseen may reach the wire
            _LOG.exception("a2a.call_failed")
            await _refuse(send, answered, Internal(), media_type)
            return
        await send_events(
            events,
            request.receive,
            send,
            answered,
            frame=lambda result: result,
            fail=lambda error: to_http_error(error)[1],
        )

    async def _params(self, request: Request, found: _Found) -> Json:
        body = await request.read() if request.scope["method"] == "POST" else b""
        given: Any = {}
        if body:
            if request.media_type not in _MEDIA_TYPES:
                raise ContentTypeNotSupported(f"send {' or '.join(_MEDIA_TYPES)}", media_type=request.media_type[:100])
            given = request.parse(body)
            if not isinstance(given, dict):
                raise InvalidInput.of("body", "must be an object")
        elif request.scope["method"] == "GET":
            given = {name: value for name, value in request.query.items() if name.lower() != "a2a-version"}
        return {**given, **found.params}


_PLAIN: Final = {
    "message:send": {"POST": "SendMessage"},
    "message:stream": {"POST": "SendStreamingMessage"},
    "extendedAgentCard": {"GET": "GetExtendedAgentCard"},
    "tasks": {"GET": "ListTasks"},
}
_CONFIGS: Final = {"POST": "CreateTaskPushNotificationConfig", "GET": "ListTaskPushNotificationConfigs"}
_CONFIG: Final = {"GET": "GetTaskPushNotificationConfig", "DELETE": "DeleteTaskPushNotificationConfig"}


def _find(path: str) -> _Found:
    """The method of a path below ours."""
    match path.split("/")[1:]:
        case [name] if name in _PLAIN:
            return _Found(f"/{name}", _PLAIN[name], {})
        case ["tasks", name] if name:
            return _find_task(name)
        case ["tasks", name, "pushNotificationConfigs"] if name:
            return _Found("/tasks/{id}/pushNotificationConfigs", _CONFIGS, {"taskId": unquote(name)})
        case ["tasks", name, "pushNotificationConfigs", config] if name and config:
            params: Json = {"taskId": unquote(name), "id": unquote(config)}
            return _Found("/tasks/{id}/pushNotificationConfigs/{config}", _CONFIG, params)
        case _:
            raise NotFound("path", f"{REST_PATH}{path}"[:200])


def _find_task(name: str) -> _Found:
    task_id, _, verb = name.rpartition(":")
    if verb == "cancel" and task_id:
        return _Found("/tasks/{id}:cancel", {"POST": "CancelTask"}, {"id": unquote(task_id)})
    if verb == "subscribe" and task_id:
        # The specification says GET; clients and the official kit send POST.
        methods = {"GET": "SubscribeToTask", "POST": "SubscribeToTask"}
        return _Found("/tasks/{id}:subscribe", methods, {"id": unquote(task_id)})
    return _Found("/tasks/{id}", {"GET": "GetTask"}, {"id": unquote(name)})


def _answer_type(request: Request) -> str:
    """The request's own media type; without a body, what it accepts."""
    if request.media_type in _MEDIA_TYPES:
        return request.media_type
    return _A2A_JSON if _A2A_JSON in request.headers.get(b"accept", "") else _MEDIA_TYPES[0]


async def _refuse(send: Send, answered: Headers, error: DragomanError, media_type: str) -> None:
    if isinstance(error, Unauthenticated):
        raise error  # the edge knows the challenge
    status, body = to_http_error(error)
    headers = list(answered)
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode()))
    if (retry_after_s := getattr(error, "retry_after_s", None)) is not None:
        headers.append((b"retry-after", str(retry_after_s).encode()))
    await _send(send, status, headers, body, media_type)


async def _send(send: Send, status: int, answered: Headers, body: Json, media_type: str) -> None:
    payload = orjson.dumps(body)
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(payload)).encode()),
        (b"cache-control", b"no-store"),
        *answered,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload})
