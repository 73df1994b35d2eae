"""Whoever makes tokens: an issuer of somebody else's, real over HTTP, and a forger who knows everything but the key."""

import base64
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from dragoman.infra.auth.keyring import Keyring
from tests.harness import Server
from tests.patience import PATIENCE_S

SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
ABSENT = object()


def claims(**changes: Any) -> dict[str, Any]:
    """What a valid token of the embedded issuer says, changed; ABSENT leaves a claim out."""
    now = int(time.time())
    valid = {"iss": "dragoman", "aud": "dragoman", "sub": "mallory", "tenant": "demo", "roles": ["org_admin"],
             "iat": now - 10, "nbf": now - 10, "exp": now + 600, "jti": "a-token"}  # fmt: skip
    return {name: value for name, value in (valid | changes).items() if value is not ABSENT}


def sign(server: Server, body: Mapping[str, Any], *, key: Any = None, alg: str = "ES256", **header: Any) -> str:
    """A token that names the server's own key, signed with that key unless another is given."""
    own = Keyring.open(server.data_dir / "secrets").issuer
    kid = server.issuer().jwks()["keys"][0]["kid"]
    return jwt.encode(dict(body), key or own, algorithm=alg, headers={"kid": kid} | header)


def glue(header: str | Mapping[str, Any], body: str | Mapping[str, Any], signature: bytes = b"x" * 64) -> str:
    """A token put together by hand, out of parts that no library would encode."""
    parts = [part if isinstance(part, str) else json.dumps(part) for part in (header, body)]
    return ".".join(_encode(part) for part in (*[part.encode() for part in parts], signature))


def public_pem(server: Server) -> bytes:
    """The public half of the server's key, as everybody can have it."""
    own = Keyring.open(server.data_dir / "secrets").issuer.public_key()
    return own.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _encode(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


class ExternalIssuer:
    """OIDC discovery and JWKS on loopback.

    `mood` is how it answers: fine, broken, garbage or silent; `published` stands in for its keys when it is set.
    """

    def __init__(self) -> None:
        self._keys: dict[str, SigningKey] = {}
        self.fetches = 0
        self.mood = "fine"
        self.published: Any = None
        self._freed = threading.Event()
        self._port = 0
        self._http: ThreadingHTTPServer | None = None
        self.open()

    @property
    def url(self) -> str:
        """What it calls itself."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """For a server that trusts it."""
        return {"DRAGOMAN_JWKS_URL": f"{self.url}/keys", "DRAGOMAN_ISSUER": self.url, "DRAGOMAN_AUDIENCE": "shop"}

    def add(self, kid: str, kind: str = "ES256") -> None:
        """Publish a fresh key."""
        self._keys[kid] = make_key(kind)

    def drop(self, kid: str) -> None:
        """Publish it no longer."""
        del self._keys[kid]

    def token(self, kid: str, *, alg: str = "ES256", key: SigningKey | str | None = None, **changes: Any) -> str:
        """A token of its own, or one that only says so when another key signs it."""
        body = claims(**{"iss": self.url, "aud": "shop", "sub": "ada", **changes})
        return jwt.encode(body, key or self._keys[kid], algorithm=alg, headers={"kid": kid})

    def open(self) -> None:
        """Listen, at the same address as before."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.answer(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._http.daemon_threads = True
        self._port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on."""
        self._freed.set()
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """One request, in its own thread."""
        self.fetches += 1
        if self.mood == "silent":
            self._freed.wait(PATIENCE_S)
            return
        found: Any = {"keys": [{**public_jwk(key), "kid": kid} for kid, key in self._keys.items()]}
        if self.published is not None:
            found = self.published
        if request.path == "/.well-known/openid-configuration":
            found = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        body = b"<html>" if self.mood == "garbage" else json.dumps(found).encode()
        request.send_response(500 if self.mood == "broken" else 200)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_key(kind: str) -> SigningKey:
    """A fresh private key for an algorithm."""
    if kind == "RS256":
        return rsa.generate_private_key(65537, 2048)
    return ed25519.Ed25519PrivateKey.generate() if kind == "EdDSA" else ec.generate_private_key(ec.SECP256R1())


def public_jwk(key: SigningKey) -> dict[str, Any]:
    """The public half as RFC 7517 writes it."""
    if isinstance(key, rsa.RSAPrivateKey):
        return RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
