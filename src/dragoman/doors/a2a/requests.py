"""What every binding takes from a request."""

import re
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import orjson

from dragoman.context import Caller, RequestContext, current_request
from dragoman.doors.a2a.calls import Call
from dragoman.doors.a2a.errors import ParseFailed
from dragoman.doors.a2a.negotiation import VERSION, negotiate_extensions, negotiate_version
from dragoman.errors import InvalidInput, Unauthenticated
from dragoman.infra.edge import AsgiScope, Receive, base_url, read_body

Headers = list[tuple[bytes, bytes]]
Json = dict[str, Any]
_MOST_VALUES: Final = 100_000
_GREATEST: Final = 2**53 - 1
_NONE: Final[frozenset[str]] = frozenset()
_LONG_NUMBER: Final = re.compile(rb"[0-9]{16}")


@dataclass(slots=True)
class Request:
    """One request on its way through a binding."""

    scope: AsgiScope
    receive: Receive
    headers: dict[bytes, str]
    query: dict[str, str]
    context: RequestContext
    _harmless: bool = False

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
            InvalidInput: `Last-Event-ID` is not a number of ours, or something in the params cannot be kept.
        """
        if not self._harmless:
            _check(params)
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
        """
        # Most bodies cannot hold what the check looks for, and looking at the text is much cheaper.
        self._harmless = len(body) < _MOST_VALUES and b"\\u0000" not in body and not _LONG_NUMBER.search(body)
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise ParseFailed(f"the body is not JSON: {error}") from None


def _check(value: Any) -> None:
    """Refuse what neither PostgreSQL nor other programs could read again."""
    waiting = [value]
    seen = 0
    while waiting:
        one = waiting.pop()
        seen += 1
        if isinstance(one, str):
            if "\x00" in one:
                raise InvalidInput.of("", "must not contain the control character U+0000")
        elif isinstance(one, dict):
            held = cast("Json", one)
            waiting += held.values()
            waiting += held
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)
        elif type(one) is int and not -_GREATEST <= one <= _GREATEST:
            raise InvalidInput.of("", "whole numbers must be within 2**53")
        if seen + len(waiting) > _MOST_VALUES:
            raise InvalidInput.of("", f"must not hold more than {_MOST_VALUES} values")


def _require(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthenticated("no caller", presented=False)
    return caller
