"""The outermost ring of every door: who asks, how much, how long, and one line in the log for each request."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import structlog

from dragoman.context import Caller, RequestContext, enter_request
from dragoman.errors import (
    DragomanError,
    Internal,
    InvalidInput,
    TimedOut,
    TooLarge,
    Unauthenticated,
    UpstreamUnavailable,
)
from dragoman.infra.auth.authenticator import Authenticator
from dragoman.infra.deadlines import Deadline, Deadlines
from dragoman.infra.edge.address import base_url
from dragoman.infra.edge.challenge import Resource
from dragoman.infra.edge.cors import Cors, ForeignOrigin
from dragoman.infra.edge.problem import SECURITY_HEADERS, Headers, problem
from dragoman.infra.ids import new_text_id
from dragoman.infra.limits import Admission
from dragoman.infra.telemetry import Metrics, SecurityEvents, Tracer, access_log

Message = MutableMapping[str, Any]
AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[AsgiScope, Receive, Send], Awaitable[None]]
Refuse = Callable[[DragomanError, str], tuple[int, Headers, bytes]]

_LOG = structlog.get_logger(__name__)
_SAFE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_SINGLE = (b"authorization", b"x-api-key", b"host", b"origin", b"content-type", b"idempotency-key", b"if-match")
_LEFT = 499
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_STRICT_PAGES = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_ONLY_TLS = (b"strict-transport-security", b"max-age=31536000")


@dataclass(frozen=True, slots=True)
class Entrance:
    """A part of the addresses with credentials of its own kind, and no other."""

    prefix: str
    authenticate: Callable[[AsgiScope, Mapping[bytes, str]], Awaitable[Caller]]


@dataclass(frozen=True, slots=True)
class EdgeRules:
    """What the edge lets through.

    `open_paths` need no credentials but are limited by address; `probe_paths` are not limited either, because a load
    balancer that is told 429 takes the server out. A door at one of the `unmetered_prefixes` counts by itself.
    `refuse` is how errors look, and `pages` is false where no browser ever reads the answer. `resources` are the paths
    whose clients find out by themselves how to get a token. `entrance` is for callers with other credentials.
    """

    max_body_bytes: int
    timeout_s: float
    cors: Cors
    open_paths: frozenset[str]
    open_prefixes: tuple[str, ...]
    probe_paths: frozenset[str]
    tls: bool
    unmetered_prefixes: tuple[str, ...] = ()
    refuse: Refuse = problem
    pages: bool = True
    resources: Mapping[str, Resource] = field(default_factory=dict[str, Resource])
    entrance: Entrance | None = None


class Edge:
    """Wraps the doors. Secure by default: a path that is not named open needs credentials."""

    def __init__(
        self,
        app: AsgiApp,
        rules: EdgeRules,
        *,
        authenticator: Authenticator,
        admission: Admission,
        metrics: Metrics,
        security: SecurityEvents,
        tracer: Tracer,
        stopping: asyncio.Event | None = None,
    ) -> None:
        self._app = app
        self._stopping = stopping or asyncio.Event()
        self._rules = rules
        self._deadlines = Deadlines(rules.timeout_s)
        self._authenticator = authenticator
        self._admission = admission
        self._metrics = metrics
        self._security = security
        self._tracer = tracer
        self.refuse = rules.refuse
        self._standing_headers = [*SECURITY_HEADERS, _ONLY_TLS] if rules.tls else SECURITY_HEADERS
        self._strict_headers = [*self._standing_headers, _STRICT_PAGES]

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one connection's request."""
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served: nothing may pass around these guards")
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        request = _read_request(scope, headers)
        request.stopping = self._stopping
        enter_request(request)
        exchange = _Exchange(self, scope, headers, request, receive, send, self._rules.max_body_bytes)
        self._metrics.http.opened()
        try:
            with self._tracer.start("request", headers.get(b"traceparent", "")) as span:
                request.span = span
                await self._serve(exchange)
        finally:
            request.let_go()
            self._metrics.http.closed()
            self._finish(exchange)

    async def _serve(self, exchange: "_Exchange") -> None:
        deadline = exchange.deadline = self._deadlines.begin()
        try:
            await self._pass(exchange)
        except DragomanError as error:
            await exchange.refuse(error)
        except asyncio.CancelledError:
            if not deadline.caught():
                if not self._stopping.is_set():
                    raise
                # Its time to drain is over: it is told so, and the one who cancelled it waits for nothing more.
                await exchange.refuse(UpstreamUnavailable("this server", retry_after_s=1))
                return
            took_s = perf_counter() - exchange.request.started
            _LOG.warning("request.timed_out", path=exchange.scope["path"], duration_s=round(took_s, 3))
            await exchange.refuse(TimedOut(after_s=self._rules.timeout_s))
        except Exception:  # noqa: BLE001 - the last net: nothing unforeseen may reach the wire
            _LOG.exception("request.failed", path=exchange.scope["path"])
            await exchange.refuse(Internal())
        finally:
            deadline.lift()

    async def _pass(self, exchange: "_Exchange") -> None:
        headers, rules = exchange.headers, self._rules
        if len(headers) != len(exchange.scope["headers"]):
            _refuse_doubles(exchange.scope["headers"])
        if (origin := headers.get(b"origin")) is not None and await self._answer_browser(exchange, origin):
            return
        path: str = exchange.scope["path"]
        if path not in rules.probe_paths:
            await self._identify(exchange, path)
        length = headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > rules.max_body_bytes):
            raise TooLarge(limit_bytes=rules.max_body_bytes)
        for name, text in (("path", exchange.scope["raw_path"]), ("query", exchange.scope["query_string"])):
            if b"%00" in text:
                raise InvalidInput.of(name, "must not contain the control character U+0000")
        await self._app(exchange.scope, exchange.receive, exchange.send)

    async def _identify(self, exchange: "_Exchange", path: str) -> None:
        request = exchange.request
        if path.startswith(self._rules.unmetered_prefixes):
            return
        if path in self._rules.open_paths or path.startswith(self._rules.open_prefixes):
            await self._admission.admit_stranger(request.ip)
            return
        try:
            request.caller = await self._find_caller(exchange, path)
        except Unauthenticated as error:
            await self._admission.admit_stranger(request.ip)
            self._security.rejected_credentials(error.reason)
            raise
        if request.caller.by_link is not None:
            # A link names a signer whom nobody here knows: who holds it is limited by address, as strangers are.
            await self._admission.admit_stranger(request.ip)

    async def _find_caller(self, exchange: "_Exchange", path: str) -> Caller:
        headers = exchange.headers
        entrance = self._rules.entrance
        if entrance is not None and path.startswith(entrance.prefix):
            return await entrance.authenticate(exchange.scope, headers)
        return await self._authenticator.authenticate(headers.get(b"authorization"), headers.get(b"x-api-key"))

    async def _answer_browser(self, exchange: "_Exchange", origin: str) -> bool:
        """Whether the request was a preflight, which is answered here."""
        cors, headers = self._rules.cors, exchange.headers
        try:
            cors.check(origin, headers.get(b"host", ""))
        except ForeignOrigin:
            if exchange.scope["path"] not in self._rules.probe_paths:
                await self._admission.admit_stranger(exchange.request.ip)
            self._security.foreign_origin(origin)
            raise
        exchange.request.response_headers += cors.headers(origin)
        if exchange.scope["method"] != "OPTIONS" or b"access-control-request-method" not in headers:
            return False
        exchange.request.response_headers.clear()
        await exchange.answer(204, cors.preflight(origin), b"")
        return True

    async def count(self, request: RequestContext) -> None:
        """Count a caller's request that no operation has counted: a wrong address, a body that cannot be read.

        Raises:
            Unauthenticated, RateLimited: instead of what would have been answered.
        """
        if request.caller is not None and not request.operation:
            await self._admission.admit(request.caller, None)

    def standing_headers(self, given: list[bytes]) -> Headers:
        """What every response says beside the headers of these names; a page that brings its own policy keeps it."""
        if not self._rules.pages:
            return []
        return self._standing_headers if _STRICT_PAGES[0] in given else self._strict_headers

    def challenged(self, exchange: "_Exchange", headers: Headers) -> Headers:
        """The headers of a 401, with what the client of a protected resource needs to know."""
        resource = self._rules.resources.get(exchange.scope["path"])
        if resource is None:
            return headers
        told = resource.challenge(base_url(exchange.scope, exchange.headers))
        return [(name, value + b", " + told if name == b"www-authenticate" else value) for name, value in headers]

    def _finish(self, exchange: "_Exchange") -> None:
        request, scope = exchange.request, exchange.scope
        seconds = perf_counter() - request.started
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        route = request.route or "unmatched"
        # Nothing was sent: the client of a call that can be cancelled has cancelled it.
        status = exchange.status or _LEFT
        request.span.rename(f"{method} {route}")
        if request.refusal is not None:
            self._security.refused_input(request.refusal)
        self._metrics.http.observe(method, route, status, seconds)
        access_log(
            method=scope["method"],
            path=scope["path"],
            route=route,
            status=status,
            duration_s=seconds,
            ip=request.ip,
            user_agent=exchange.headers.get(b"user-agent", ""),
            request_bytes=exchange.received,
            response_bytes=exchange.sent,
        )


class _Exchange:
    """One request and its response on the way through: counted, capped and stamped."""

    __slots__ = (
        "_complete", "_counted", "_edge", "_head", "_max_bytes", "_receive", "_send", "_whole",
        "deadline", "headers", "received", "request", "scope", "sent", "status",
    )  # fmt: skip

    def __init__(
        self,
        edge: Edge,
        scope: AsgiScope,
        headers: dict[bytes, str],
        request: RequestContext,
        receive: Receive,
        send: Send,
        max_bytes: int,
    ) -> None:
        self._edge = edge
        self.scope = scope
        self.headers = headers
        self.request = request
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self._whole = False
        self._counted = False
        self._head: Headers = []
        self._complete = False
        self.deadline: Deadline | None = None
        self.status = 0
        self.received = 0
        self.sent = 0

    async def receive(self) -> Message:
        """The next piece of the body, as long as the whole stays under the cap.

        Raises:
            TooLarge: it does not.
            InvalidInput: the client left in the middle; half a body must not pass for a whole one.
        """
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._whole:
            raise InvalidInput.of("body", "ended before it was complete")
        self.received += len(message.get("body", b""))
        if self.received > self._max_bytes:
            raise TooLarge(limit_bytes=self._max_bytes)
        self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Stamp the response on its way out; once it has begun, it is no longer timed."""
        if message["type"] == "http.response.start":
            if not self.request.operation:
                await self._count()
            self.status = message["status"]
            if self.deadline is not None:
                self.deadline.lift()
            self._head = message["headers"]
            message["headers"] = self._stamped(self._head)
        else:
            self.sent += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
        await self._send(message)

    def _stamped(self, given: Headers) -> Headers:
        request, names = self.request, [name for name, _ in given]
        added = request.response_headers
        # A problem says by itself when to come back, and saying it twice makes it unreadable.
        if b"retry-after" in names:
            added = [header for header in added if header[0] != b"retry-after"]
        stamped = [*given, *added, (b"x-request-id", request.id.encode()), *self._edge.standing_headers(names)]
        if request.correlation_id:
            stamped.append((b"x-correlation-id", request.correlation_id.encode()))
        return stamped

    async def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """A whole response."""
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: DragomanError) -> None:
        """Say what is wrong, unless the response has begun: then only its end is left to send.

        A stream of events ends in good order, since each event is written as a whole. Any other response that is not
        complete breaks off, so that half of it is not taken for the whole.
        """
        if self.deadline is not None:
            self.deadline.lift()
        if self.status != 0:
            if not self._complete and _is_event_stream(self._head):
                await self.send({"type": "http.response.body", "body": b""})
            return
        try:
            await self._count()
        except DragomanError as instead:
            error = instead
        self.request.refusal = error
        status, headers, body = self._edge.refuse(error, self.request.id)
        if isinstance(error, Unauthenticated):
            headers = self._edge.challenged(self, headers)
        await self.answer(status, headers, body)

    async def _count(self) -> None:
        if not self._counted:
            self._counted = True
            await self._edge.count(self.request)


def _is_event_stream(head: Headers) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in head)


def _refuse_doubles(headers: list[tuple[bytes, bytes]]) -> None:
    """What a proxy has checked must be what is used here, so there must be one of it."""
    names = [name for name, _ in headers]
    for name in _SINGLE:
        if names.count(name) > 1:
            raise InvalidInput.of(name.decode(), "must be given once")


def _read_request(scope: AsgiScope, headers: dict[bytes, str]) -> RequestContext:
    correlation = headers.get(b"x-correlation-id") or headers.get(b"x-request-id", "")
    client = scope.get("client")
    return RequestContext(
        headers=headers,
        id=new_text_id(),
        door="http",
        ip=client[0] if client else "",
        correlation_id=correlation if correlation and _SAFE_ID.fullmatch(correlation) else "",
    )
