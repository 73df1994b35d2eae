"""What a document is, and what can be asked of documents."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from dragoman.binary import DECODED, NAMED_BY_HASH
from dragoman.operations import Input, ListInput, Output
from dragoman.text import Name, clean

# In base64 it fits into a message of gRPC, which is 4 MB by default.
MOST_PIECE_BYTES = 2_097_152


class MediaType(StrEnum):
    """What a document is made of."""

    PDF = "application/pdf"
    MARKDOWN = "text/markdown"
    TYPST = "text/x-typst"
    PLAIN = "text/plain"
    DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


class DocumentState(StrEnum):
    """How far a document has come."""

    DRAFT = "draft"
    SENT = "sent"
    EXECUTED = "executed"


class VersionKind(StrEnum):
    """How a version came about."""

    UPLOADED = "uploaded"
    DRAFTED = "drafted"
    REVISED = "revised"
    COMPARED = "compared"
    SIGNED = "signed"


# In a digest of the input the content stands for itself by its hash.
Content = Annotated[
    bytes,
    DECODED,
    NAMED_BY_HASH,
    WithJsonSchema({"type": "string", "format": "byte", "minLength": 1}),
]
DocumentRef = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(clean)]
MatterId = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(clean)]
VersionNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]


class AddDocument(Input):
    """A document from elsewhere, or a new version of one that is here."""

    content: Content = Field(description="The file, in base64.")
    media_type: MediaType = Field(description="What it is; the content is checked against it.")
    title: Name | None = Field(None, description="What people call it; a new document needs one.")
    name: DocumentRef | None = Field(None, description="A name of the caller's for a new document, to refer to it by.")
    document_id: DocumentRef | None = Field(None, description="Add a version to this document instead.")
    matter_id: MatterId | None = Field(None, description="The matter that a new document belongs to.")
    expected_version: VersionNumber | None = Field(None, description="Only if this is the newest version so far.")


class GetDocument(Input):
    """Which document."""

    document_id: DocumentRef = Field(description="Its id or its name.")


class ListDocuments(ListInput):
    """Which documents."""

    state: DocumentState | None = None
    matter_id: MatterId | None = Field(None, description="Only of this matter.")


class ReadContent(Input):
    """What stands in a version, or a piece of it."""

    document_id: DocumentRef = Field(description="Its id or its name.")
    version: VersionNumber | None = Field(None, description="Which version; the newest when unset.")
    source: bool = Field(default=False, description="The text that it was made from, in Markdown, instead.")
    offset: int = Field(0, ge=0, le=2**53 - 1, description="Where the piece begins.")
    length: int = Field(MOST_PIECE_BYTES, ge=1, le=MOST_PIECE_BYTES, description="The most bytes of the piece.")


class VersionView(Output):
    """A version: it never changes."""

    version: int
    kind: VersionKind
    sha256: str
    size_bytes: int
    media_type: MediaType
    uri: str
    made_by: str
    made_at: datetime
    task_id: UUID | None = Field(description="The task that made it.")
    template: str | None
    fields: dict[str, Any] | None = Field(description="What the template was filled with.")
    source_sha256: str | None = Field(description="Of the text that it was made from.")


class DocumentView(Output):
    """A document as it stands; content, size and type are those of its newest version."""

    id: UUID
    name: str | None
    title: str
    matter_id: str | None
    about: UUID | None = Field(description="The document that this one is about, such as what a redline compares.")
    state: DocumentState
    version: int
    sha256: str
    size_bytes: int
    media_type: MediaType
    uri: str
    executed_version: int | None
    created_by: str
    created_at: datetime
    updated_at: datetime


class DocumentHistory(DocumentView):
    """A document with its versions, newest first."""

    versions: list[VersionView]


class DocumentContent(Output):
    """A piece of a version; the whole of it unless it is large."""

    document_id: UUID
    version: int
    media_type: MediaType
    sha256: str = Field(description="Of the whole.")
    size_bytes: int = Field(description="Of the whole.")
    content: str = Field(description="The piece, in base64.")
    offset: int
    next_offset: int | None = Field(description="Where the next piece begins; null at the end.")


def uri_of(document_id: UUID, version: int) -> str:
    """Where a version stands, in results and evidence."""
    return f"dragoman://documents/{document_id}/versions/{version}"
