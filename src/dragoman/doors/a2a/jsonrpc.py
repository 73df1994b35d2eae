"""The JSON-RPC binding: one address, the method in the body."""

from typing import Any, Final

from dragoman.doors.a2a.calls import Calls, Methods
from dragoman.doors.a2a.calls_03 import Calls03
from dragoman.doors.a2a.card import RPC_PATH
from dragoman.doors.a2a.envelope import serve_envelope
from dragoman.doors.a2a.errors import ContentTypeNotSupported, to_rpc_error
from dragoman.doors.a2a.negotiation import OLDER, VERSION
from dragoman.doors.a2a.requests import Headers, Request
from dragoman.errors import MethodNotAllowed
from dragoman.infra.edge import Send

MEDIA_TYPES: Final = frozenset({"application/json", "application/a2a+json"})


class JsonRpc:
    """Answers with HTTP 200 whatever becomes of the call, except where HTTP itself has the better word."""

    def __init__(self, calls: Calls) -> None:
        self._versions: dict[str, Methods] = {VERSION: calls, OLDER: Calls03(calls)}

    async def serve(self, request: Request, send: Send) -> None:
        """Answer one request."""

        async def read() -> Any:
            _check_head(request)
            return request.parse(await request.read())

        def choose(method: str) -> tuple[Methods, Headers]:
            # Who does not say a version is known by the names of the methods: 0.3 has a slash in each.
            version, answered = request.negotiate(
                served=tuple(self._versions), silent=OLDER if "/" in method else VERSION
            )
            methods = self._versions[version]
            known = method in methods.answers or method in methods.streams
            request.context.route = f"{RPC_PATH} {method}" if known else RPC_PATH
            return methods, answered

        await serve_envelope(request, send, read=read, choose=choose, show=to_rpc_error)


def _check_head(request: Request) -> None:
    """The media type before the body: what is not declared as JSON is not read as JSON."""
    if request.scope["method"] != "POST":
        raise MethodNotAllowed(request.scope["method"], ["POST"])
    if request.media_type not in MEDIA_TYPES:
        raise ContentTypeNotSupported("send application/json", media_type=request.media_type[:100])
