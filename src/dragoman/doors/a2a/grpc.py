"""The gRPC binding: the protocol's own messages on the wire, the same calls behind them. Needs the extra `grpc`."""

import asyncio
from contextlib import aclosing
from typing import Any, Final

import orjson
import structlog
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError, SerializeToJsonError
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import code_pb2, error_details_pb2, status_pb2

from dragoman.arguments import whole_numbers
from dragoman.doors.a2a.calls import Calls, Events
from dragoman.doors.a2a.errors import MethodNotFound, UnsupportedOperation, details_of, wire_of
from dragoman.doors.a2a.requests import Headers, Json, Request
from dragoman.errors import DragomanError, Internal, InvalidInput, UpstreamUnavailable
from dragoman.infra.edge import AsgiScope, Receive, Send, run_until_stopping
from dragoman.jsontext import check_values

_LOG = structlog.get_logger(__name__)
_SERVICE: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
# Brackets that cannot make an answer too deep, whatever it is: three messages for each level of an object.
_SHALLOW: Final = 30
_PREFIX: Final = f"/{_SERVICE.full_name}/"
# Named so that their descriptors are there when a detail of one of these types is packed.
DETAILS: Final = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RequestInfo)


class GrpcBinding:
    """Plain ASGI, as the edge has it: the path names the method, and every piece of a body is one message.

    It has every method of the service that `Calls` has.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._methods = {_PREFIX + method.name: method for method in _SERVICE.methods}

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one call.

        Raises:
            DragomanError: it fails before there is a response; `refuse` shows it.
        """
        request = Request.of(scope, receive)
        request.context.door = "a2a"
        method = self._methods.get(scope["path"])
        if method is None:
            raise MethodNotFound(scope["path"])
        request.context.route = scope["path"]
        request.context.response_headers += request.negotiate()[1]
        asked, answered = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        call = request.call(_read(await request.read(), asked()))
        if (stream := self._calls.streams.get(method.name)) is not None:
            await _send_events(await stream(call), answered, send)
            return
        answer = _write(await self._calls.answers[method.name](call), answered())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer, "more_body": True})


def refuse(error: DragomanError, request_id: str) -> tuple[int, Headers, bytes]:
    """Status for the log, and what says to a gRPC client why; the details are a `google.rpc.Status`."""
    del request_id  # said by the edge on every response
    wire = wire_of(error)
    code: int = code_pb2.Code.Value(wire.grpc)
    status = ParseDict({"code": code, "message": error.message, "details": details_of(error)}, status_pb2.Status())
    headers: Headers = [
        (b"grpc-status", str(code).encode()),
        (b"grpc-message", error.message.encode()),
        (b"grpc-status-details-bin", status.SerializeToString()),
    ]
    if (retry_after_s := getattr(error, "retry_after_s", None)) is not None:
        headers.append((b"retry-after", str(retry_after_s).encode()))
    return wire.http, headers, b""


async def _send_events(events: Events, answered: type[Message], send: Send) -> None:
    """Each as it comes. HTTP/2 keeps the line alive by itself where nothing happens."""
    await send({"type": "http.response.start", "status": 200, "headers": []})

    async def run() -> None:
        async with aclosing(events):
            try:
                async for event in events:
                    if event is not None:
                        body = _write(event[1], answered())
                        await send({"type": "http.response.body", "body": body, "more_body": True})
            except DragomanError as error:
                await send({"type": "http.response.trailers", "headers": refuse(error, "")[1]})
            except Exception:  # noqa: BLE001 - the edge has no way to say it once the response has begun
                _LOG.exception("a2a.stream_failed")
                await send({"type": "http.response.trailers", "headers": refuse(Internal(), "")[1]})

    sending = asyncio.create_task(run())
    try:
        ended = await run_until_stopping({sending})
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    if not ended:
        leaving = UpstreamUnavailable("this server", retry_after_s=1)
        await send({"type": "http.response.trailers", "headers": refuse(leaving, "")[1]})


def _read(body: bytes, message: Message) -> Json:
    try:
        message.ParseFromString(body)
        # Free data has only floating numbers on this wire.
        request = whole_numbers(MessageToDict(message))
    except (DecodeError, SerializeToJsonError, ValueError, RecursionError) as error:
        raise InvalidInput.of("message", f"must be a {message.DESCRIPTOR.full_name}: {error}") from None
    check_values(request)
    return request


def _write(answer: Any, message: Message) -> bytes:
    """Return the answer as a message.

    Raises:
        UnsupportedOperation: its free data is deeper than clients read, which end at a hundred messages in each other.
    """
    text = orjson.dumps(answer)
    deep = text.count(b"[") + text.count(b"{") > _SHALLOW
    try:
        body = ParseDict(answer, message).SerializeToString()
        if deep:
            type(message).FromString(body)
    except (ParseError, DecodeError) as error:
        if deep:
            raise UnsupportedOperation("the data is nested too deeply for gRPC; use another binding") from None
        raise RuntimeError(f"the answer is no {message.DESCRIPTOR.full_name}") from error
    return body
