"""One request and its one answer, for doors that read a whole body and send another."""

from collections.abc import Awaitable, Callable

from dragoman.context import RequestContext, current_request
from dragoman.errors import DragomanError, InvalidInput
from dragoman.infra.edge.edge import AsgiScope, Receive, Send
from dragoman.infra.edge.problem import Headers, problem

Answer = tuple[int, Headers, bytes]


async def exchange(
    door: str,
    answer: Callable[[AsgiScope, Receive, RequestContext], Awaitable[Answer]],
    scope: AsgiScope,
    receive: Receive,
    send: Send,
) -> None:
    """Send what the door answers; an error that it raises is sent as a problem document."""
    request = current_request() or RequestContext(id="", door=door)
    request.door = door
    try:
        status, headers, body = await answer(scope, receive, request)
    except DragomanError as error:
        request.refusal = error
        status, headers, body = problem(error, request.id)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Receive) -> bytes:
    """The whole body; the edge has capped it.

    Raises:
        InvalidInput: the client went away in the middle; what came so far must not be taken for all.
    """
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidInput.of("body", "ended before it was complete")
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
