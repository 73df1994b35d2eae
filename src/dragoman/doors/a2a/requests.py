"""What every binding takes from a request."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from dragoman.context import Caller, RequestContext, current_request
from dragoman.doors.a2a.calls import Call
from dragoman.doors.a2a.errors import ParseFailed
from dragoman.doors.a2a.negotiation import VERSION, negotiate_extensions, negotiate_version
from dragoman.errors import InvalidInput, Unauthenticated
from dragoman.infra.edge import AsgiScope, Receive, base_url, read_body
from dragoman.jsontext import NotJson, parse_json

Headers = list[tuple[bytes, bytes]]
Json = dict[str, Any]
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(slots=True)
class Request:
    """One request on its way through a binding."""

    scope: AsgiScope
    receive: Receive
    headers: dict[bytes, str]
    query: dict[str, str]
    context: RequestContext

    @classmethod
    def of(cls, scope: AsgiScope, receive: Receive) -> "Request":
        """From ASGI."""
        raw = scope["query_string"]
        query = dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True)) if raw else {}
        context = current_request() or RequestContext(id="", door="a2a")
        return cls(scope, receive, context.headers, query, context)

    @property
    def media_type(self) -> str:
        """What the body is declared to be."""
        return self.headers.get(b"content-type", "").partition(";")[0].strip().lower()

    @property
    def base_url(self) -> str:
        """Under which address the client found this server."""
        return base_url(self.scope, self.headers)

    def negotiate(self, *, served: tuple[str, ...] = (VERSION,), silent: str = VERSION) -> tuple[str, Headers]:
        """The version to answer in, and the headers of the answer.

        Raises:
            VersionNotSupported: it is not served.
        """
        version = negotiate_version(self.headers, self.query, served=served, silent=silent)
        active = negotiate_extensions(self.headers)
        answered: Headers = [(b"a2a-version", version.encode())]
        if active:
            answered.append((b"a2a-extensions", ", ".join(active).encode()))
        return version, answered

    def call(self, params: Any) -> Call:
        """The call that it carries.

        Raises:
            InvalidInput: `Last-Event-ID` is not a number of ours.
        """
        last = self.headers.get(b"last-event-id", "").strip()
        if last and not (last.isascii() and last.isdigit() and len(last) < 10):
            raise InvalidInput.of("Last-Event-ID", "must be the id of an event of this stream")
        return Call(
            caller=_require(self.context.caller),
            params=params,
            base_url=self.base_url,
            idempotency_key=self.headers.get(b"idempotency-key"),
            last_event_id=int(last) if last else None,
            extensions=frozenset(negotiate_extensions(self.headers)) if b"a2a-extensions" in self.headers else _NONE,
        )

    async def read(self) -> bytes:
        """The whole body; the edge has capped it.

        Raises:
            InvalidInput: the client went away in the middle.
        """
        return await read_body(self.receive)

    def parse(self, body: bytes) -> Any:
        """The JSON of a body.

        Raises:
            ParseFailed: it is not JSON.
            InvalidInput: a value in it cannot be kept.
        """
        try:
            return parse_json(body)
        except NotJson as error:
            raise ParseFailed(f"the body is not JSON: {error.reason}") from None


def _require(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthenticated("no caller", presented=False)
    return caller
