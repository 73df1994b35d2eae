"""The MCP door: plain ASGI. It counts a message before the SDK sees it, because HTTP says best that it is too much."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from dragoman.context import Caller, RequestContext, current_request
from dragoman.doors.mcp.catalogue import OperationTool
from dragoman.doors.mcp.metadata import METADATA_PATHS, Metadata
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.unfit import UNFIT_KEY, find_unfit_call
from dragoman.doors.mcp.wire import ADMITTED_KEY, Json, error_json, rpc_code
from dragoman.errors import (
    DragomanError,
    ExtraMissing,
    Forbidden,
    InvalidInput,
    MethodNotAllowed,
    Unauthenticated,
    UnsupportedMedia,
)
from dragoman.infra.edge import STATUS, AsgiScope, Receive, Resource, Send, base_url, read_body
from dragoman.infra.jobs import Job
from dragoman.infra.limits import Admitted
from dragoman.jsontext import UnfitJson, parse_json, rpc_id_of
from dragoman.operations import AnyOperation, Passage, RateClass
from dragoman.services.tasks.passages import CANCEL_TASK, GET_TASK, SEND_MESSAGE

if TYPE_CHECKING:
    from dragoman.doors.mcp.endpoint import Endpoint

MCP_PATH: Final = "/mcp"
_LOOK: Final = Passage("mcp.look", "read:identity", RateClass.POLL)
_PASSAGES: Final = {"tasks/get": GET_TASK, "tasks/update": SEND_MESSAGE, "tasks/cancel": CANCEL_TASK}
_OF_SESSIONS: Final = ("GET", "DELETE")
_JSON: Final = (b"content-type", b"application/json")


class McpDoor:
    """Serves `/mcp` and the metadata of its OAuth resource.

    The SDK is imported with the first request, off the loop: a server that nobody asks over MCP does not pay for it.
    """

    def __init__(
        self,
        offer: Offer,
        *,
        metadata: Metadata,
        lacks_scope: Callable[[Caller, AnyOperation | Passage], bool],
    ) -> None:
        self._offer = offer
        self._metadata = metadata
        self._lacks_scope = lacks_scope
        self._endpoint: Endpoint | None = None
        self._opening = asyncio.Lock()
        self._opened = asyncio.Event()

    @property
    def resource(self) -> Resource:
        """What the edge tells those who come without a good token."""
        return self._metadata.resource

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = current_request() or RequestContext(id="", door="mcp")
        request.door = "mcp"
        if scope["path"] in METADATA_PATHS:
            await self._metadata.serve(scope, request, send)
            return
        request.route = MCP_PATH
        session = request.headers.get(b"mcp-session-id")
        if scope["method"] == "POST":
            await self._post(scope, request, receive, send, session)
        elif scope["method"] in _OF_SESSIONS and session is not None:
            await self._attend(scope, request, receive, send, session)
        else:
            allowed = ["POST"] if scope["method"] in _OF_SESSIONS else ["POST", *_OF_SESSIONS]
            raise MethodNotAllowed(scope["method"], allowed)

    async def _post(
        self, scope: AsgiScope, request: RequestContext, receive: Receive, send: Send, session: str | None
    ) -> None:
        media_type = request.headers.get(b"content-type", "")
        if media_type.partition(";")[0].strip().lower() != "application/json":
            raise UnsupportedMedia(media_type[:100], expected="application/json")
        body = await read_body(receive)
        message, caller = dict[str, Any](), _require(request.caller)
        try:
            message, refusal = _read(body)
            if refusal is not None:
                body = orjson.dumps(message)
            admitted, breakable = await self._admit(message, caller)
            endpoint = await self._open()
            headers = [(name, value.strip()) for name, value in scope["headers"]]
            scope = {**scope, "headers": headers, ADMITTED_KEY: admitted, UNFIT_KEY: refusal}
            replayed = _replay(body, receive if breakable else _never)
            await endpoint.serve(scope, replayed, send, caller=caller, session=session, message=message)
        except Unauthenticated:
            raise
        except DragomanError as error:
            await self._refuse(error, message, scope, request, send)

    async def _attend(
        self, scope: AsgiScope, request: RequestContext, receive: Receive, send: Send, session: str
    ) -> None:
        """What a session does beside sending messages: it listens, or it ends."""
        caller = _require(request.caller)
        try:
            await self._offer.gate.admit(_LOOK, caller)
            endpoint = await self._open()
            if scope["method"] == "GET":
                await endpoint.listen(receive, send, caller=caller, session=session)
            else:
                await endpoint.end(send, caller=caller, session=session)
        except Unauthenticated:
            raise
        except DragomanError as error:
            await self._refuse(error, {}, scope, request, send)

    def leave(self) -> None:
        """End the streams that would never end by themselves."""
        if self._endpoint is not None:
            self._endpoint.leave()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sequence[Job]]:
        """Run the SDK as a job, so that it is built anew should it fail."""
        yield [Job(name="mcp_endpoint", work=self._run)]

    async def _run(self) -> None:
        await self._opened.wait()
        await (await self._open()).run()

    async def _admit(self, message: Json, caller: Caller) -> tuple[Admitted, bool]:
        """Count the message; whether what it asks for may be broken off when the client leaves.

        Raises:
            DragomanError: a limit is used up, the credential was revoked, or one with more scopes is needed.
        """
        method, params = message.get("method"), message.get("params")
        named = cast("Json", params).get("name") if isinstance(params, dict) else None
        tool = self._offer.catalogue.find(named) if method == "tools/call" else None
        passage = tool.passage if tool else _PASSAGES.get(method, _LOOK) if isinstance(method, str) else _LOOK
        admitted = await self._offer.gate.admit(passage, caller)
        if passage is not _LOOK and self._lacks_scope(caller, passage):
            await self._offer.gate.guard(passage, caller, admitted=admitted)
        return admitted, not (isinstance(tool, OperationTool) and tool.operation.writes)

    async def _open(self) -> "Endpoint":
        if self._endpoint is None:
            async with self._opening:
                if self._endpoint is None:
                    try:
                        module = await asyncio.to_thread(import_module, "dragoman.doors.mcp.endpoint")
                    except ImportError:
                        raise ExtraMissing("mcp") from None
                    self._endpoint = cast("Endpoint", module.Endpoint(self._offer))
                    self._opened.set()
        return self._endpoint

    async def _refuse(
        self, error: DragomanError, message: Json, scope: AsgiScope, request: RequestContext, send: Send
    ) -> None:
        """By HTTP's status, with a body that clients of MCP read."""
        told = {"code": rpc_code(error), "message": error.message, "data": error_json(error)}
        rpc_id = rpc_id_of(error.value if isinstance(error, UnfitJson) else message)
        body = orjson.dumps({"jsonrpc": "2.0", "id": rpc_id, "error": told})
        headers = [_JSON, (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
        if (retry_after_s := getattr(error, "retry_after_s", None)) is not None:
            headers.append((b"retry-after", str(retry_after_s).encode()))
        if isinstance(error, Forbidden):
            # A token in place of this one must do all that this one does.
            held = (request.caller.scopes if request.caller else None) or frozenset[str]()
            scopes = tuple(sorted(held | {error.details["permission"]}))
            challenge = self.resource.challenge(base_url(scope, request.headers), scopes=scopes)
            headers.append((b"www-authenticate", b'Bearer error="insufficient_scope", ' + challenge))
        await send({"type": "http.response.start", "status": STATUS[error.kind][0], "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _read(body: bytes) -> tuple[Json, InvalidInput | None]:
    """Return the object of a body, without such arguments of a tool as are refused, and their refusal.

    It is empty where the body is another value, of which the SDK says what is wrong.
    """
    try:
        message = parse_json(body)
    except UnfitJson as error:
        call = find_unfit_call(error)
        if call is None:
            raise
        return call.message, call.refusal
    return cast("Json", message) if isinstance(message, dict) else {}, None


def _replay(body: bytes, then: Receive) -> Receive:
    given = False

    async def receive() -> Any:
        nonlocal given
        if given:
            return await then()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _never() -> Any:
    """A client that leaves does not take back what it asked for: a write ends as a whole, by itself."""
    await asyncio.Event().wait()


def _require(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthenticated("no caller", presented=False)
    return caller
