"""Other people's repositories of knowledge: on disk, and over HTTPS from a host that keeps one waiting."""

import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import trustme


class Remote:
    """Somebody's repository of knowledge."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git("init", "-q", "-b", "main", str(path))

    def git(self, *words: str) -> str:
        """Run git there."""
        who = ["-c", "user.name=ada", "-c", "user.email=ada@example.com"]
        where = ["-C", str(self.path)] if self.path.exists() else []
        return subprocess.run(["git", *who, *where, *words], check=True, capture_output=True, text=True).stdout

    def write(self, **documents: str) -> None:
        """Commit documents, by the path that each has with __ for /."""
        for name, text in documents.items():
            path = self.path / f"{name.replace('__', '/')}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", "change")


def item(title: str, **fields: str) -> str:
    """A document."""
    head = "".join(f"{name}: {value}\n" for name, value in {"title": title, "status": "accepted", **fields}.items())
    return f"---\n{head}---\n\n{title} it is.\n"


class HeldRemote:
    """The repository over HTTPS: half of what is fetched is sent, the rest once `go` is set. `held` says when."""

    def __init__(self, remote: Remote, directory: Path) -> None:
        self.held, self.go = threading.Event(), threading.Event()
        self.bundle = directory / "ca.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.bundle))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, remote))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/knowledge.git"

    @property
    def environment(self) -> dict[str, str]:
        """Of a server that may reach it and believes it."""
        return {"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", "SSL_CERT_FILE": str(self.bundle)}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(held: HeldRemote, remote: Remote) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            refs = self._upload_pack("--advertise-refs")
            self._begin("application/x-git-upload-pack-advertisement", b"001e# service=git-upload-pack\n0000" + refs)
            self.wfile.write(b"001e# service=git-upload-pack\n0000" + refs)

        def do_POST(self) -> None:
            pack = self._upload_pack(given=self.rfile.read(int(self.headers["content-length"])))
            self._begin("application/x-git-upload-pack-result", pack)
            middle = len(pack) // 2
            self.wfile.write(pack[:middle])
            self.wfile.flush()
            held.held.set()
            held.go.wait()
            self.wfile.write(pack[middle:])

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Nothing."""

        def _upload_pack(self, *words: str, given: bytes = b"") -> bytes:
            command = ["git", "upload-pack", "--stateless-rpc", *words, str(remote.path)]
            return subprocess.run(command, input=given, check=True, capture_output=True).stdout

        def _begin(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()

    return Handler
