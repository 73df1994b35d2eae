"""Hosts of git on loopback: smart HTTP over TLS with a password, and ports that are no such thing."""

import base64
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import trustme
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.services.knowledge.remotes import Remote


class HttpsHost:
    """`git upload-pack` behind TLS, for a name; with `token` only for those who send it. `answers` is a status."""

    def __init__(
        self, remote: Remote, directory: Path, *, name: str, address: str = "127.0.0.1", port: int = 0, token: str = ""
    ) -> None:
        self.bundle = directory / "ca.pem"
        self.token = token
        self.answers: int | None = None
        self.redirect: str | None = None
        self.seen: list[str | None] = []
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.bundle))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(context)
        self._context = context
        self._handler = type("Handler", (_Handler,), {"host": self, "remote": remote})
        self._address = address
        self._open(port)
        self.url = f"https://{name}:{self.port}/knowledge.git"

    def _open(self, port: int) -> None:
        self._server = ThreadingHTTPServer((self._address, port), self._handler)
        self._server.daemon_threads = True
        self._server.socket = self._context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]

    def open_again(self) -> None:
        """Be back at the same port, after it was closed."""
        self._open(self.port)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Trap:
    """A port that nobody should come to; `visits` counts who did. With `greeting` it says something first."""

    def __init__(self, address: str, port: int = 0, *, greeting: bytes | None = None) -> None:
        self._greeting = greeting
        self._server = socket.create_server((address, port))
        self.port: int = self._server.getsockname()[1]
        self.visits = 0
        self.visited = threading.Event()
        self.heard = b""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                visitor, _ = self._server.accept()
            except OSError:
                return
            self.visits += 1
            self.visited.set()
            with visitor:
                visitor.sendall(self._greeting or b"")
                if self._greeting is not None:
                    self.heard += visitor.recv(1024)


def new_key() -> tuple[str, str]:
    """A private key in the format of OpenSSH, and its public half."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    host: HttpsHost
    remote: Remote

    def do_GET(self) -> None:
        if self._admit():
            refs = b"001e# service=git-upload-pack\n0000" + self._upload_pack("--advertise-refs")
            self._reply(200, "application/x-git-upload-pack-advertisement", refs)

    def do_POST(self) -> None:
        given = self.rfile.read(int(self.headers["content-length"]))
        if self._admit():
            self._reply(200, "application/x-git-upload-pack-result", self._upload_pack(given=given))

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Nothing."""

    def _admit(self) -> bool:
        sent = self.headers["authorization"]
        self.host.seen.append(sent)
        wanted = f"Basic {base64.b64encode(f'robot:{self.host.token}'.encode()).decode()}"
        if self.host.redirect is not None:
            self._reply(302, "text/plain", b"", location=f"{self.host.redirect}{self.path}")
        elif self.host.answers is not None:
            self._reply(self.host.answers, "text/html", b"<html>no</html>")
        elif self.host.token and sent != wanted:
            self._reply(401, "text/plain", b"", **{"www-authenticate": 'Basic realm="git"'})
        else:
            return True
        return False

    def _upload_pack(self, *words: str, given: bytes = b"") -> bytes:
        command = ["git", "upload-pack", "--stateless-rpc", *words, str(self.remote.path)]
        return subprocess.run(command, input=given, check=True, capture_output=True).stdout

    def _reply(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
