"""DocuSign and Documenso as far as they are spoken to: local servers with their shapes, rules and bad days."""

import base64
import hmac
import io
import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from pyhanko.pdf_utils.reader import PdfFileReader

Json = dict[str, Any]
ACCOUNT = "b9e6f7a0-1111-4222-8333-444455556666"
TOKEN = "token-of-the-account"
WEBHOOK_KEY = "key-of-the-webhooks"


class Refusal(Exception):
    """What a provider says no with."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(body)
        self.status = status
        self.body = body


@dataclass
class RemoteProvider:
    """What both have: envelopes, and a list of what they were asked to do.

    With `loses_answers` everything is done and nothing is answered, as when a line breaks, or only where something was
    changed; with `hangs` the answer to what is done waits, and `reached` tells that it does.
    """

    url: str = ""
    envelopes: dict[str, Json] = field(default_factory=dict[str, Json])
    done: list[str] = field(default_factory=list[str])
    loses_answers: bool = False
    loses_answers_to_changes: bool = False
    hangs: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    signed: bytes = b""

    def answer(self, method: str, path: str, query: dict[str, list[str]], headers: Any, body: bytes) -> Any:
        """What to answer with: an object, or bytes of a file."""
        raise NotImplementedError


class DocuSignServer(RemoteProvider):
    """The eSignature REST API: envelopes of one account."""

    base = f"/restapi/v2.1/accounts/{ACCOUNT}"

    def answer(self, method: str, path: str, query: dict[str, list[str]], headers: Any, body: bytes) -> Any:
        if path == "/oauth/token":
            return self._grant(body)
        if headers["authorization"] != f"Bearer {TOKEN}":
            raise Refusal(401, {"errorCode": "AUTHORIZATION_INVALID_TOKEN", "message": "The access token is invalid."})
        parts = path.removeprefix(self.base).strip("/").split("/")
        if parts == ["envelopes"]:
            return self._create(json.loads(body)) if method == "POST" else self._list(query)
        if parts == ["folders", "recyclebin"]:
            return self._recycle(json.loads(body))
        envelope = self.envelopes.get(parts[1])
        if envelope is None:
            raise Refusal(404, {"errorCode": "ENVELOPE_DOES_NOT_EXIST", "message": "The envelope does not exist."})
        if parts[2:] == ["documents", "combined"]:
            return self.signed
        return self._change(envelope, json.loads(body)) if method == "PUT" else envelope

    def _grant(self, body: bytes) -> Json:
        form = parse_qs(body.decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        self.done.append("grant")
        return {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600}

    def _create(self, given: Json) -> Json:
        assert given["status"] == "created", "a draft comes first"
        assert base64.b64decode(given["documents"][0]["documentBase64"]).startswith(b"%PDF-")
        documents = {one["documentId"]: _pages(base64.b64decode(one["documentBase64"])) for one in given["documents"]}
        for signer in given["recipients"]["signers"]:
            for tab in (tab for kind in signer.get("tabs", {}).values() for tab in kind):
                _check_tab(tab, documents)
        envelope_id = str(uuid4())
        recipients = {
            kind: [{**one, "status": "created"} for one in given["recipients"][kind]] for kind in given["recipients"]
        }
        self.envelopes[envelope_id] = {
            "envelopeId": envelope_id, "status": "created", "emailSubject": given["emailSubject"],
            "customFields": given["customFields"], "recipients": recipients,
        }  # fmt: skip
        self.done.append("create")
        return {"envelopeId": envelope_id, "status": "created", "statusDateTime": "2026-11-16T05:00:00.0Z"}

    def _list(self, query: dict[str, list[str]]) -> Json:
        assert query["from_date"]
        name, _, value = query["custom_field"][0].partition("=")
        found = [
            {"envelopeId": one["envelopeId"], "status": one["status"]}
            for one in self.envelopes.values()
            if {"name": name, "value": value}.items() <= one["customFields"]["textCustomFields"][0].items()
        ]
        return {"resultSetSize": str(len(found)), "envelopes": found}

    def _recycle(self, given: Json) -> Json:
        for envelope_id in given["envelopeIds"]:
            self.envelopes[envelope_id]["status"] = "deleted"
        self.done.append("recycle")
        return {}

    def _change(self, envelope: Json, given: Json) -> Json:
        allowed = {"sent": ("created",), "voided": ("sent", "delivered")}
        if envelope["status"] not in allowed[given["status"]]:
            raise Refusal(400, {"errorCode": "ENVELOPE_INVALID_STATUS", "message": "The envelope status is not valid."})
        envelope["status"] = given["status"]
        if given["status"] == "voided":
            envelope["voidedReason"] = given["voidedReason"]
        self.done.append(given["status"])
        return {"envelopeId": envelope["envelopeId"]}

    def webhook(self, event: str, envelope_id: str, *, status: str) -> tuple[bytes, dict[str, str]]:
        """A message of Connect, signed with two keys of which we have the second."""
        told = {
            "event": event, "apiVersion": "v2.1", "retryCount": 0, "generatedDateTime": "2026-11-16T05:00:00.0Z",
            "data": {
                "accountId": ACCOUNT, "envelopeId": envelope_id,
                "envelopeSummary": {**self.envelopes[envelope_id], "status": status},
            },
        }  # fmt: skip
        body = json.dumps(told).encode()
        signatures = [hmac.digest(key, body, "sha256") for key in (b"retired", WEBHOOK_KEY.encode())]
        return body, {
            f"X-DocuSign-Signature-{number}": base64.b64encode(one).decode()
            for number, one in enumerate(signatures, 1)
        }  # fmt: skip


def _pages(pdf: bytes) -> list[tuple[float, float]]:
    reader = PdfFileReader(io.BytesIO(pdf))
    boxes = [page["/MediaBox"] for page in _leaves(reader.root["/Pages"])]
    return [(float(box[2]) - float(box[0]), float(box[3]) - float(box[1])) for box in boxes]


def _leaves(node: Any) -> Iterator[Any]:
    for kid in (one.get_object() for one in node["/Kids"]):
        if kid["/Type"] == "/Pages":
            yield from _leaves(kid)
        else:
            yield kid


def _check_tab(tab: Json, documents: dict[str, list[tuple[float, float]]]) -> None:
    """Refuse a tab as DocuSign does: numbers are text, counted from the upper left corner, and stay on the page."""
    if not {"documentId", "pageNumber", "xPosition", "yPosition"} <= tab.keys():
        raise Refusal(400, {"errorCode": "TAB_LOCATION_NOT_SPECIFIED", "message": "The tab location is missing."})
    if not all(isinstance(tab[name], str) and tab[name].isdigit() for name in ("pageNumber", "xPosition", "yPosition")):
        raise Refusal(400, {"errorCode": "INVALID_REQUEST_PARAMETER", "message": "A tab has a number that is none."})
    pages = documents.get(tab["documentId"], [])
    if not 1 <= (page := int(tab["pageNumber"])) <= len(pages):
        raise Refusal(400, {"errorCode": "TAB_REFERS_TO_MISSING_DOCUMENT", "message": "There is no such page."})
    width, height = pages[page - 1]
    if int(tab["xPosition"]) >= width or int(tab["yPosition"]) >= height:
        raise Refusal(400, {"errorCode": "TAB_OUT_OF_BOUNDS", "message": "The tab is not on the page."})


class DocumensoServer(RemoteProvider):
    """The API, version 2: envelopes of one team."""

    base = "/api/v2"

    def answer(self, method: str, path: str, query: dict[str, list[str]], headers: Any, body: bytes) -> Any:
        if headers["authorization"] != TOKEN:
            raise Refusal(401, {"message": "API token is not valid", "code": "UNAUTHORIZED"})
        parts = path.removeprefix(self.base).strip("/").split("/")
        if (method, parts) == ("GET", ["envelope"]):
            return self._find(query["query"][0])
        if parts == ["envelope", "create"]:
            return self._create(headers, body)
        if parts[:2] == ["envelope", "item"]:
            return self.signed
        if method == "GET":
            return self._get(parts[1])
        given = json.loads(body)
        return getattr(self, f"_{parts[1]}")(self._get(given["envelopeId"]), given)

    def _get(self, envelope_id: str) -> Json:
        if envelope_id not in self.envelopes:
            raise Refusal(404, {"message": "Envelope not found", "code": "NOT_FOUND"})
        return self.envelopes[envelope_id]

    def _find(self, words: str) -> Json:
        found = [one for one in self.envelopes.values() if words in one["externalId"]]
        return {"data": found, "count": len(found), "currentPage": 1, "perPage": 50, "totalPages": 1}

    def _create(self, headers: Any, body: bytes) -> Json:
        whole = b"content-type: " + headers["content-type"].encode() + b"\r\n\r\n" + body
        parts: dict[Any, Any] = {
            part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
            for part in BytesParser(policy=HTTP).parsebytes(whole).walk()
            if not part.is_multipart()
        }
        assert parts["files"].startswith(b"%PDF-")
        given = json.loads(parts["payload"])
        envelope_id = f"envelope_{uuid4().hex[:12]}"
        self.envelopes[envelope_id] = {
            "id": envelope_id, "status": "DRAFT", "externalId": given["externalId"], "title": given["title"],
            "envelopeItems": [{"id": f"envelope_item_{uuid4().hex[:8]}", "title": given["title"], "order": 1}],
            "recipients": [
                {"email": one["email"], "role": one["role"], "signingStatus": "NOT_SIGNED", "readStatus": "NOT_OPENED",
                 "signedAt": None, "rejectionReason": None, "fields": one["fields"]}
                for one in given["recipients"]
            ],
        }  # fmt: skip
        self.done.append("create")
        return {"id": envelope_id}

    def _distribute(self, envelope: Json, _given: Json) -> Json:
        unplaced = [one for one in envelope["recipients"] if one["role"] == "SIGNER" and not one["fields"]]
        if unplaced:
            raise Refusal(400, {"message": "Some signers have no signature field", "code": "INVALID_REQUEST"})
        envelope["status"] = "PENDING"
        self.done.append("distribute")
        return {"success": True, "id": envelope["id"], "recipients": []}

    def _cancel(self, envelope: Json, _given: Json) -> Json:
        if envelope["status"] != "PENDING":
            raise Refusal(400, {"message": "Only pending documents can be cancelled", "code": "INVALID_REQUEST"})
        envelope["status"] = "CANCELLED"
        self.done.append("cancel")
        return {"success": True}

    def _delete(self, envelope: Json, _given: Json) -> Json:
        del self.envelopes[envelope["id"]]
        self.done.append("delete")
        return {"success": True}

    def webhook(self, event: str, envelope_id: str, *, status: str) -> tuple[bytes, dict[str, str]]:
        """What it tells, with the secret as it is."""
        payload = {**self.envelopes[envelope_id], "id": 4711, "status": status}
        told = {"event": event, "payload": payload, "createdAt": "2026-11-16T05:00:00.000Z"}
        return json.dumps(told).encode(), {"X-Documenso-Secret": WEBHOOK_KEY}


@contextmanager
def serving(provider: RemoteProvider) -> Generator[None]:
    """Let it listen."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            target = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                said = provider.answer(self.command, target.path, parse_qs(target.query), self.headers, body)
                status = 200
            except Refusal as refusal:
                status, said = refusal.status, refusal.body
            changes = self.command != "GET"
            if hung := provider.hangs and changes:
                provider.reached.set()
                provider.released.wait()
            if hung or provider.loses_answers or (provider.loses_answers_to_changes and changes):
                self.close_connection = True
                return
            content = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 - as the library calls them

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the library calls it
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        provider.released.set()
        listening.shutdown()
        listening.server_close()
        thread.join()
