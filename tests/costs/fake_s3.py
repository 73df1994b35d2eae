"""A store that speaks the protocol of S3 over a socket: it lists with pages, and refuses signatures that are wrong.

It computes signatures in a way of its own: from the request line and the headers as they came.
"""

import hashlib
import hmac
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote
from uuid import uuid4
from xml.sax.saxutils import escape


@dataclass
class FakeStore:
    """Buckets with objects; one access key, and what it is told to answer with instead."""

    url: str = ""
    access_key_id: str = field(default_factory=lambda: f"AK{uuid4().hex[:14].upper()}")
    secret_access_key: str = field(default_factory=lambda: f"s3cr3t/{uuid4().hex}")
    session_token: str | None = None
    region: str = "eu-central-1"
    most_keys: int = 2
    objects: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    refusal: tuple[int, str] | None = None
    body: bytes | None = None
    requests: list[str] = field(default_factory=list[str])
    web: dict[str, tuple[int, dict[str, str], bytes]] = field(
        default_factory=dict[str, tuple[int, dict[str, str], bytes]]
    )
    seen: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    @property
    def secret(self) -> dict[str, str]:
        """The credential that opens it."""
        token = {"session_token": self.session_token} if self.session_token else {}
        return {"access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key, **token}


def refusal_of(store: FakeStore, method: str, target: str, headers: Any) -> str | None:
    """The code of S3 for what is wrong with a signature."""
    given = headers.get("authorization", "")
    if not given.startswith("AWS4-HMAC-SHA256 "):
        return "AccessDenied"
    parts = dict(part.strip().split("=", 1) for part in given.removeprefix("AWS4-HMAC-SHA256 ").split(","))
    key_id, day, region, service, end = parts["Credential"].split("/")
    if key_id != store.access_key_id:
        return "InvalidAccessKeyId"
    if region != store.region:
        return "AuthorizationHeaderMalformed"
    if headers.get("x-amz-security-token") != store.session_token:
        return "InvalidToken"
    path, _, query = target.partition("?")
    pairs = sorted((quote(unquote(n), safe="~-_."), quote(unquote(v), safe="~-_.")) for n, v in
                   (pair.partition("=")[::2] for pair in query.split("&") if pair))  # fmt: skip
    lines = [method, quote(unquote(path), safe="/~-_."), "&".join(f"{n}={v}" for n, v in pairs)]
    signed = parts["SignedHeaders"].split(";")
    if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed):
        return "AccessDenied"
    lines += [f"{name}:{headers[name].strip()}" for name in signed]
    lines += ["", ";".join(signed), headers["x-amz-content-sha256"]]
    scope = f"{day}/{region}/{service}/{end}"
    text = (
        f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n" + hashlib.sha256("\n".join(lines).encode()).hexdigest()
    )
    key = b"AWS4" + store.secret_access_key.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return None if hmac.digest(key, text.encode(), "sha256").hex() == parts["Signature"] else "SignatureDoesNotMatch"


def listing(store: FakeStore, objects: dict[str, bytes], query: dict[str, str]) -> bytes:
    """A page of ListObjectsV2."""
    names = sorted(name for name in objects if name.startswith(query.get("prefix", "")))
    begin = int(query.get("continuation-token", "0"))
    most = min(store.most_keys, int(query["max-keys"]))
    shown, more = names[begin : begin + most], begin + most < len(names)
    contents = "".join(
        f"<Contents><Key>{escape(quote(name, safe='/').replace('%20', '+'))}</Key>"
        f"<ETag>&quot;{hashlib.md5(objects[name]).hexdigest()}&quot;</ETag><Size>{len(objects[name])}</Size></Contents>"
        for name in shown
    )
    token = f"<NextContinuationToken>{begin + most}</NextContinuationToken>" if more else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<EncodingType>url</EncodingType><IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}{contents}"
        "</ListBucketResult>"
    ).encode()


def answer_of(store: FakeStore, method: str, target: str, headers: Any) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    path, _, query = target.partition("?")
    if path in store.web:
        return store.web[path]
    wrong = store.refusal
    if wrong is None and (code := refusal_of(store, method, target, headers)) is not None:
        wrong = 403, code
    if wrong is not None:
        return _refused(store, *wrong)
    bucket, _, key = unquote(path).removeprefix("/").partition("/")
    if (objects := store.objects.get(bucket)) is None:
        return _refused(store, 404, "NoSuchBucket")
    if not key:
        found = listing(store, objects, dict(parse_qsl(query, keep_blank_values=True)))
        return 200, {"content-type": "application/xml"}, store.body or found
    if key not in objects:
        return _refused(store, 404, "NoSuchKey")
    return 200, {"etag": f'"{hashlib.md5(objects[key]).hexdigest()}"'}, objects[key]


def _refused(store: FakeStore, status: int, code: str) -> tuple[int, dict[str, str], bytes]:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    return status, {"x-amz-bucket-region": store.region}, body


@contextmanager
def fake_s3(**options: Any) -> Generator[FakeStore]:
    """A store that answers as long as the block lasts."""
    store = FakeStore(**options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of its parent
            """Nothing is printed."""

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            store.requests.append(self.path)
            store.seen.append({name.lower(): value for name, value in self.headers.items()})
            self._send(*answer_of(store, self.command, self.path, self.headers))

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    store.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
