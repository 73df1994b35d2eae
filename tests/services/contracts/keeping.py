"""Documents as callers send them."""

import base64
import io
import zipfile
from typing import Any

import httpx

from tests.tenants import done

PDF, MARKDOWN = "application/pdf", "text/markdown"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def encoded(content: bytes) -> str:
    """As it travels."""
    return base64.b64encode(content).decode()


def upload(content: bytes = b"# Terms\n\nBe kind.\n", media_type: str = MARKDOWN, **fields: Any) -> dict[str, Any]:
    """The body of a new document."""
    return {"title": "Terms", "media_type": media_type, "content": encoded(content), **fields}


def add(http: httpx.Client, content: bytes = b"# Terms\n\nBe kind.\n", **fields: Any) -> dict[str, Any]:
    """A document that is kept."""
    return done(http.post("/api/documents", json=upload(content, **fields)))


def content_of(http: httpx.Client, document_id: str, **wanted: Any) -> bytes:
    """All of a version."""
    found = done(http.get(f"/api/documents/{document_id}/content", params=wanted))
    assert found["next_offset"] is None
    return base64.b64decode(found["content"])


def pdf(said: bytes = b"Hello") -> bytes:
    """The smallest PDF that readers open."""
    body = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n%"
    body += said + b"\n"
    start = len(body)
    return body + b"xref\n0 1\n0000000000 65535 f \ntrailer<</Root 1 0 R/Size 3>>\nstartxref\n%d\n%%%%EOF\n" % start


def docx(*paragraphs: str, xml: str | None = None) -> bytes:
    """A small document of a word processor; `xml` stands in for all of its text."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    text = "".join(f"<w:p><w:r><w:t>{one}</w:t></w:r></w:p>" for one in paragraphs)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        body = f'<w:document xmlns:w="{space}"><w:body>{text}</w:body></w:document>'
        archive.writestr("word/document.xml", xml or body)
    return file.getvalue()
