"""What an OAuth client reads about this resource: who gives tokens for it, and for what (RFC 9728)."""

from collections.abc import Sequence
from typing import Final

import orjson

from dragoman.context import RequestContext
from dragoman.errors import MethodNotAllowed
from dragoman.infra.edge import AsgiScope, Resource, Send, base_url

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
# For a resource with a path, the metadata stands under the same path; some clients look at the root alone.
METADATA_PATHS: Final = frozenset({METADATA_PATH, f"{METADATA_PATH}/mcp"})


class Metadata:
    """One document, under two addresses."""

    def __init__(self, *, issuer: str | None, scopes: Sequence[str]) -> None:
        self._issuer = issuer
        self._scopes = list(scopes)
        # What one needs to look around; a tool that needs more says so when it is called.
        looking = tuple(scope for scope in self._scopes if scope.startswith("read:"))
        self.resource = Resource(f"{METADATA_PATH}/mcp", looking)

    async def serve(self, scope: AsgiScope, request: RequestContext, send: Send) -> None:
        """Answer one request."""
        request.route = METADATA_PATH
        if scope["method"] not in ("GET", "HEAD"):
            raise MethodNotAllowed(scope["method"], ["GET", "HEAD"])
        base = base_url(scope, request.headers)
        document = {
            "resource": f"{base}/mcp",
            "resource_name": "Dragoman",
            "resource_documentation": f"{base}/docs",
            "bearer_methods_supported": ["header"],
            "scopes_supported": self._scopes,
        }
        if self._issuer:
            document["authorization_servers"] = [self._issuer]
        body = orjson.dumps(document)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"public, max-age=300"),
            (b"vary", b"host"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
