"""The page at `/docs`: Swagger UI from our own disk, under a policy that lets nothing else in."""

import asyncio
import gzip
import hashlib
from pathlib import Path
from string import Template
from typing import Final

Headers = list[tuple[bytes, bytes]]

_SWAGGER: Final = Path(__file__).parent / "assets" / "swagger"
# Swagger UI sets style attributes; scripts come from files alone.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FOREVER: Final = "public, max-age=31536000, immutable"
_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".png": "image/png"}

_PAGE: Final = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dragoman API</title>
<link rel="icon" type="image/png" sizes="32x32" href="/docs/favicon-32x32.png?v=$favicon">
<link rel="stylesheet" href="/docs/swagger-ui.css?v=$swagger_style">
<link rel="stylesheet" href="/docs/page.css?v=$style">
</head>
<body>
<header class="banner">
<span class="banner-name">Dragoman</span>
<nav>
<a href="/openapi.json">OpenAPI 3.1</a>
<a href="/openapi-3.0.json">OpenAPI 3.0</a>
<a href="/health">Health</a>
</nav>
</header>
<main id="swagger-ui"></main>
<noscript>This page needs JavaScript; the document itself is at /openapi.json.</noscript>
<script src="/docs/swagger-ui-bundle.js?v=$swagger_script"></script>
<script src="/docs/init.js?v=$script"></script>
</body>
</html>
""")

_SCRIPT: Final = b"""\
"use strict";
window.ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  displayOperationId: true,
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""

_STYLE: Final = b"""\
body { margin: 0; background: #fafafa; }
.banner { display: flex; align-items: center; justify-content: space-between; padding: 12px 24px;
  background: #1b2a3a; color: #fff; font-family: system-ui, sans-serif; }
.banner-name { font-size: 18px; font-weight: 600; letter-spacing: .02em; }
.banner a { margin-left: 20px; color: #b9d4ee; font-size: 14px; text-decoration: none; }
.banner a:hover, .banner a:focus { color: #fff; text-decoration: underline; }
.swagger-ui .info { margin: 28px 0; }
.swagger-ui .scheme-container { box-shadow: none; border: 1px solid #e4e7eb; border-width: 1px 0; }
"""


class Document:
    """Bytes that stay the same while the server runs; their gzip is made when it is first wanted."""

    def __init__(self, body: bytes, content_type: str) -> None:
        self.body = body
        self.content_type = content_type
        self.digest = hashlib.sha256(body).hexdigest()[:16]
        self._packed: bytes | None = None

    async def encoded(self, *, as_gzip: bool) -> tuple[bytes, Headers]:
        """The body as the client wants it, and the headers that say so."""
        headers: Headers = [(b"content-type", self.content_type.encode())]
        if self.content_type.startswith("image/"):
            return self.body, headers
        headers.append((b"vary", b"accept-encoding"))
        if not as_gzip:
            return self.body, headers
        if self._packed is None:
            # The largest takes a tenth of a second: not on the event loop.
            self._packed = await asyncio.to_thread(gzip.compress, self.body, mtime=0)
        return self._packed, [*headers, (b"content-encoding", b"gzip")]


ASSETS: Final = ("favicon-32x32.png", "init.js", "page.css", "swagger-ui-bundle.js", "swagger-ui.css")


def load_assets() -> dict[str, Document]:
    """Everything that the page refers to, by file name."""
    own = {"init.js": _SCRIPT, "page.css": _STYLE}
    bodies = {name: own[name] if name in own else (_SWAGGER / name).read_bytes() for name in ASSETS}
    return {name: Document(body, _TYPES[Path(name).suffix]) for name, body in bodies.items()}


def render_page(assets: dict[str, Document]) -> Document:
    """The page; it names each asset with its digest, so that a browser may keep those for ever."""
    html = _PAGE.substitute(
        favicon=assets["favicon-32x32.png"].digest,
        swagger_style=assets["swagger-ui.css"].digest,
        style=assets["page.css"].digest,
        swagger_script=assets["swagger-ui-bundle.js"].digest,
        script=assets["init.js"].digest,
    )
    return Document(html.encode(), "text/html; charset=utf-8")
