"""TLS as it should be today, and a protocol that shows the client's certificate to the application."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uvicorn.config import Config

from dragoman.infra.edge.protocol import HttpProtocol

# Forward secrecy and authenticated encryption only; TLS 1.3 brings its own list and is preferred by both sides.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


def tls_context(client_ca: Path | None) -> Callable[[Config, Callable[[], ssl.SSLContext]], ssl.SSLContext]:
    """A context factory for uvicorn; with a CA, clients may show a certificate of it and no other."""

    def make(_: Config, default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        context = default()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.set_ciphers(_CIPHERS)
        if client_ca is not None:
            context.load_verify_locations(cafile=str(client_ca))
            # Optional: people and their browsers come without; the agent gateway refuses those itself.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    return make


class TlsProtocol(HttpProtocol):
    """Puts what TLS knows of the client into the ASGI scope, which uvicorn does not do by itself."""

    _tls: dict[object, object] | None = None

    def connection_made(self, transport: Any) -> None:
        """Read the certificate once a connection."""
        super().connection_made(transport)
        session = transport.get_extra_info("ssl_object")
        if session is not None:
            certificate = session.getpeercert(binary_form=True)
            self._tls = {
                "tls_version": session.version(),
                "cipher_suite": session.cipher()[0],
                "client_cert_chain": (ssl.DER_cert_to_PEM_cert(certificate),) if certificate else (),
            }

    def on_message_begin(self) -> None:
        """Every request of the connection carries it."""
        super().on_message_begin()
        if self._tls is not None:
            self.scope["extensions"]["tls"] = self._tls  # pyright: ignore[reportTypedDictNotRequiredAccess]
