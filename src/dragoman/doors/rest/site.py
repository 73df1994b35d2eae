"""The addresses that are no operations: probes, metrics, the API documents and the page that shows them."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel

from dragoman.context import RequestContext, current_request
from dragoman.doors.rest.openapi import SiteAnswer, SitePath
from dragoman.doors.rest.openapi_30 import to_openapi_30
from dragoman.doors.rest.page import ASSETS, FOREVER, POLICY, Document, Headers, load_assets, render_page
from dragoman.doors.rest.signing_page import SIGNING_PAGE, SIGNING_POLICY
from dragoman.errors import DragomanError, MethodNotAllowed, NotFound
from dragoman.infra.edge import AsgiScope, Receive, Send, base_url, problem
from dragoman.infra.telemetry import Health, HealthReport, Scrapes
from dragoman.services.workers.profile import PROFILE_HEADER, PROFILE_PATH, ContractsProfile

Json = dict[str, Any]
RETRY_AFTER_S: Final = 5
# Of a page for people without an account.
OPEN_SITE: Final = frozenset(SIGNING_PAGE)
_JSON: Final = "application/json"
_ASSET: Final = "/docs/{asset}"
_FRESH: Final = (b"cache-control", b"no-store")
_ASK_AGAIN: Final = (b"cache-control", b"no-cache")
_READY: Final[Json] = {"type": "object", "required": ["ready"], "properties": {"ready": {"type": "boolean"}}}
_OPENAPI: Final[Json] = {"type": "object", "required": ["openapi", "info", "paths"]}
_KEYS: Final[Json] = {
    "type": "object",
    "required": ["keys"],
    "properties": {"keys": {"type": "array", "items": {"type": "object"}}},
}
_TEXT: Final[Json] = {"type": "string"}


def _report(status: str, database: str) -> Json:
    found = {"status": database, "latency_ms": 0.8}
    return {
        "status": status,
        "version": "0.1.0",
        "uptime_s": 86400.0,
        "dependencies": {"database": found},
        "breakers": {},
        "tenant_breakers": {"webhook": 0},
    }


SITE_PATHS: Final = (
    SitePath("/", "site_home", "Go to the documentation", (SiteAnswer(307, "To `/docs`.", headers=("Location",)),)),
    SitePath(
        "/health",
        "site_health",
        "How the server and what it needs are doing",
        (
            SiteAnswer(200, "In service, perhaps not at its best.", {_JSON: HealthReport}, _report("ok", "up")),
            SiteAnswer(503, "Out of service.", {_JSON: HealthReport}, _report("down", "down"), ("Retry-After",)),
        ),
        limited=False,
    ),
    SitePath(
        "/ready",
        "site_ready",
        "Whether to send requests here",
        (
            SiteAnswer(200, "Yes.", {_JSON: _READY}, {"ready": True}),
            SiteAnswer(503, "Not now.", {_JSON: _READY}, {"ready": False}, ("Retry-After",)),
        ),
        limited=False,
    ),
    SitePath(
        "/metrics",
        "site_metrics",
        "What Prometheus scrapes",
        (SiteAnswer(200, "All processes of this server.", {"text/plain": _TEXT}, "dragoman_open_requests 1.0\n"),),
    ),
    SitePath("/docs", "site_docs", "This page", (SiteAnswer(200, "Swagger UI.", {"text/html": _TEXT}),)),
    SitePath(
        _ASSET,
        "site_docs_asset",
        "What the page is made of",
        (SiteAnswer(200, "A file.", dict.fromkeys(("text/javascript", "text/css", "image/png"), _TEXT)),),
        parameters={"asset": {"type": "string", "enum": list(ASSETS), "examples": ["init.js"]}},
        errors=(404,),
    ),
    SitePath(
        "/sign",
        "site_sign",
        "Where a one-time link to sign leads",
        (SiteAnswer(200, "A page; the code of the link stands behind the #.", {"text/html": _TEXT}),),
    ),
    SitePath(
        "/sign/page.js",
        "site_sign_script",
        "The page's script",
        (SiteAnswer(200, "A file.", {"text/javascript": _TEXT}),),
    ),
    SitePath(
        "/sign/page.css", "site_sign_style", "The page's style", (SiteAnswer(200, "A file.", {"text/css": _TEXT}),)
    ),
    SitePath("/openapi.json", "site_openapi", "This document", (SiteAnswer(200, "OpenAPI 3.1.", {_JSON: _OPENAPI}),)),
    SitePath(
        "/openapi-3.0.json",
        "site_openapi_30",
        "This document for older tools",
        (SiteAnswer(200, "OpenAPI 3.0.", {_JSON: _OPENAPI}),),
    ),
    SitePath(
        "/.well-known/jwks.json",
        "site_jwks",
        "The public keys of the cards that this server signs and of the tokens that it issues",
        (
            SiteAnswer(
                200,
                "A key set (RFC 7517).",
                {_JSON: _KEYS},
                {"keys": [{"kty": "EC", "crv": "P-256", "kid": "2026-01"}]},
            ),
        ),
    ),
    SitePath(
        PROFILE_PATH,
        "site_contracts_profile",
        "What contract work can be delegated here, and how",
        (
            SiteAnswer(
                200,
                "The contracts profile in the version that was asked for.",
                {_JSON: ContractsProfile},
                headers=("ETag",),
            ),
            SiteAnswer(304, "It is what the client has.", headers=("ETag",)),
        ),
        query={"version": {"type": "string", "description": "A version of the profile.", "examples": ["1.0"]}},
        errors=(400,),
    ),
)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: Headers = field(default_factory=Headers)


_Handler = Callable[[AsgiScope], Awaitable[_Answer]]


@dataclass(frozen=True, slots=True)
class Shown:
    """What anybody may read: the public keys, the API, and the contracts profile by version and address."""

    keys: list[Json]
    openapi: Callable[[], Json]
    profile: Callable[[str | None, str], BaseModel]


class Site:
    """Plain ASGI for `SITE_PATHS`; GET and HEAD alone."""

    def __init__(self, health: Health, scrapes: Scrapes, shown: Shown, *, ready: Callable[[], bool]) -> None:
        self._health = health
        self._scrapes = scrapes
        self._keys = orjson.dumps({"keys": shown.keys})
        self._openapi = shown.openapi
        self._profile = shown.profile
        self._ready = ready
        self._documents: dict[str, Document] = {}
        self._handlers: dict[str, _Handler] = {
            "/": self._home,
            "/health": self._show_health,
            "/ready": self._show_ready,
            "/metrics": self._show_metrics,
            "/docs": self._show_page,
            _ASSET: self._show_asset,
            "/openapi.json": self._show_openapi,
            "/openapi-3.0.json": self._show_openapi_30,
            "/.well-known/jwks.json": self._show_keys,
            PROFILE_PATH: self._show_profile,
            **dict.fromkeys(SIGNING_PAGE, self._show_signing),
        }

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        del receive
        request = current_request() or RequestContext(id="", door="http")
        try:
            answer = await self._answer(scope, request)
            status, body = answer.status, answer.body
            headers = [*answer.headers, (b"content-length", str(len(body)).encode())]
        except DragomanError as error:
            status, headers, body = problem(error, request.id)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    @cached_property
    def _assets(self) -> dict[str, Document]:
        return load_assets()

    @cached_property
    def _page(self) -> Document:
        return render_page(self._assets)

    async def _made(self, version: str, make: Callable[[], Json]) -> Document:
        """Made with the first request, beside the event loop, and kept: an idle server does without."""
        if version not in self._documents:
            self._documents[version] = await asyncio.to_thread(lambda: Document(orjson.dumps(make()), _JSON))
        return self._documents[version]

    async def _answer(self, scope: AsgiScope, request: RequestContext) -> _Answer:
        path: str = scope["path"]
        route = path
        if path.startswith("/docs/"):
            route = _ASSET if path[6:] in ASSETS else ""
        handler = self._handlers.get(route)
        if handler is None:
            raise NotFound("path", path[:200])
        request.route = route
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(scope["method"], ["GET", "HEAD"])
        return await handler(scope)

    async def _home(self, scope: AsgiScope) -> _Answer:
        del scope
        return _Answer(307, headers=[(b"location", b"/docs"), _ASK_AGAIN])

    async def _show_health(self, scope: AsgiScope) -> _Answer:
        del scope
        report = await self._health.report()
        return _probe(report.model_dump_json().encode(), well=report.status != "down")

    async def _show_ready(self, scope: AsgiScope) -> _Answer:
        del scope
        ready = self._ready()
        return _probe(orjson.dumps({"ready": ready}), well=ready)

    async def _show_metrics(self, scope: AsgiScope) -> _Answer:
        sent = next((bytes(value) for name, value in scope["headers"] if name == b"authorization"), b"")
        body, content_type = await self._scrapes.get(sent)
        return _Answer(200, body, [(b"content-type", content_type.encode()), _FRESH])

    async def _show_page(self, scope: AsgiScope) -> _Answer:
        policy = (b"content-security-policy", POLICY.encode())
        return await _document(scope, self._page, [_ASK_AGAIN, policy])

    async def _show_asset(self, scope: AsgiScope) -> _Answer:
        asset = self._assets[scope["path"][6:]]
        # Only under the name with its digest does it stay the same after the next release.
        named = scope["query_string"] == f"v={asset.digest}".encode()
        return await _document(scope, asset, [(b"cache-control", FOREVER.encode()) if named else _ASK_AGAIN])

    async def _show_signing(self, scope: AsgiScope) -> _Answer:
        policy = (b"content-security-policy", SIGNING_POLICY.encode())
        return await _document(scope, SIGNING_PAGE[scope["path"]], [_FRESH, policy])

    async def _show_openapi(self, scope: AsgiScope) -> _Answer:
        document = await self._made("3.1", self._openapi)
        return await _document(scope, document, [_ASK_AGAIN])

    async def _show_openapi_30(self, scope: AsgiScope) -> _Answer:
        document = await self._made("3.0", lambda: to_openapi_30(self._openapi()))
        return await _document(scope, document, [_ASK_AGAIN])

    async def _show_keys(self, scope: AsgiScope) -> _Answer:
        del scope
        headers: Headers = [(b"content-type", _JSON.encode()), (b"cache-control", b"public, max-age=300")]
        return _Answer(200, self._keys, headers)

    async def _show_profile(self, scope: AsgiScope) -> _Answer:
        headers = {bytes(name): value.decode("latin-1") for name, value in scope["headers"]}
        asked = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        profile = self._profile(asked.get("version") or headers.get(PROFILE_HEADER), base_url(scope, headers))
        body = profile.model_dump_json(exclude_none=True).encode()
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        told: Headers = [
            (b"etag", etag.encode()),
            (b"cache-control", b"public, max-age=60"),
            (b"vary", b"host, contracts-profile-version"),
        ]
        known = headers.get(b"if-none-match", "").strip()
        if known == "*" or (known and etag in known):
            return _Answer(304, headers=told)
        return _Answer(200, body, [(b"content-type", _JSON.encode()), *told])


def _probe(body: bytes, *, well: bool) -> _Answer:
    headers: Headers = [(b"content-type", _JSON.encode()), _FRESH]
    if well:
        return _Answer(200, body, headers)
    return _Answer(503, body, [*headers, (b"retry-after", str(RETRY_AFTER_S).encode())])


async def _document(scope: AsgiScope, document: Document, headers: Headers) -> _Answer:
    body, told = await document.encoded(as_gzip=_takes_gzip(scope))
    return _Answer(200, body, [*told, *headers])


def _takes_gzip(scope: AsgiScope) -> bool:
    """Whether an `Accept-Encoding` names gzip and does not weigh it at nothing."""
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            for choice in value.decode("latin-1").lower().split(","):
                coding, _, weight = choice.partition(";")
                if coding.strip() == "gzip":
                    return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
