"""Rules of documents: what is kept, who may change it until when, and what a caller believes it to be."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound, Stale
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.contracts import models as m
from dragoman.services.contracts.errors import DocumentClosed, DocumentTooLarge, VersionMoved
from dragoman.services.contracts.media import check_content
from dragoman.services.contracts.store import DocumentStore, NewDocument, NewVersion, Record

_MOST_VERSIONS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Made:
    """Something that a task made, on its way in; `step` tells apart what one task makes."""

    content: bytes
    media_type: m.MediaType
    kind: m.VersionKind
    task_id: UUID
    step: str
    source: str | None = None
    template: str | None = None
    fields: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a version went."""

    document_id: UUID
    version: m.VersionView


@dataclass(frozen=True, slots=True)
class Held:
    """A version with all of its content, and the text that it was made from, where there is one."""

    document: m.DocumentView
    version: m.VersionView
    content: bytes
    source: str | None


class DocumentService:
    """Keeps the documents of a tenant. Versions never change; a document that was executed gets no more of them."""

    def __init__(self, store: DocumentStore, *, max_bytes: int, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._new_id = new_id

    async def add(self, caller: Caller, given: m.AddDocument) -> m.DocumentView:
        """A new document, or a new version of one.

        Raises:
            InvalidInput: neither a title nor a document is given, or both a name and a document are.
            DocumentInvalid: the content is not of its type.
            DocumentTooLarge: it is too large.
            NameTaken: another document has the name.
            NotFound: there is no such document.
            Stale: it has another newest version than the expected one.
            DocumentClosed: it is out for signature, or executed.
        """
        self._check(given.content, given.media_type)
        version = NewVersion(
            kind=m.VersionKind.UPLOADED.value,
            media_type=given.media_type.value,
            content=given.content,
            sha256=hashlib.sha256(given.content).digest(),
            made_by=caller.subject,
        )
        if given.document_id is None:
            placed = await self._create(caller, given, version)
        else:
            placed = await self._append(caller, given.document_id, version, given)
        return await self.get(caller, str(placed["document_id"]))

    async def list(self, caller: Caller, wanted: m.ListDocuments) -> Page[m.DocumentView]:
        """Newest first."""
        rows = await self._store.list_documents(
            scope_of(caller), wanted.limit + 1, wanted.cursor, wanted.state, wanted.matter_id
        )
        return page([_document(row) for row in rows], wanted.limit)

    async def show(self, caller: Caller, wanted: m.GetDocument) -> m.DocumentHistory:
        """A document with its newest versions.

        Raises:
            NotFound: there is no such document.
        """
        document = await self.get(caller, wanted.document_id)
        rows = await self._store.list_versions(scope_of(caller), document.id, _MOST_VERSIONS)
        return m.DocumentHistory(**document.model_dump(), versions=[_version(row) for row in rows])

    async def content(self, caller: Caller, wanted: m.ReadContent) -> m.DocumentContent:
        """What stands in a version, a piece at a time.

        Raises:
            NotFound: there is no such document or version, or it was made from no text.
        """
        document = await self.get(caller, wanted.document_id)
        version = await self.get_version(caller, document, wanted.version)
        sha256, media_type, size = version.sha256, version.media_type, version.size_bytes
        if wanted.source:
            if version.source_sha256 is None:
                raise NotFound("source of version", version.version)
            text = await self._whole(caller, version.source_sha256)
            sha256, media_type, size = version.source_sha256, m.MediaType.MARKDOWN, len(text)
        piece = await self._store.read(scope_of(caller), sha256, offset=wanted.offset, length=wanted.length) or b""
        end = wanted.offset + len(piece)
        return m.DocumentContent(
            document_id=document.id,
            version=version.version,
            media_type=media_type,
            sha256=sha256,
            size_bytes=size,
            content=base64.b64encode(piece).decode(),
            offset=wanted.offset,
            next_offset=end if end < size and piece else None,
        )

    async def find(self, caller: Caller, ref: str) -> m.DocumentView | None:
        """A document by its id or its name."""
        row = await self._store.find(scope_of(caller), ref)
        return _document(row) if row is not None else None

    async def get(self, caller: Caller, ref: str) -> m.DocumentView:
        """A document by its id or its name.

        Raises:
            NotFound: there is none.
        """
        if (document := await self.find(caller, ref)) is None:
            raise NotFound("document", ref)
        return document

    async def get_version(self, caller: Caller, document: m.DocumentView, number: int | None) -> m.VersionView:
        """A version of it, the newest when none is named.

        Raises:
            NotFound: it has no such version.
        """
        wanted = document.version if number is None else number
        row = await self._store.find_version(scope_of(caller), document.id, wanted)
        if row is None:
            raise NotFound("version", wanted)
        return _version(row)

    async def read(self, caller: Caller, ref: str, number: int | None = None) -> Held:
        """A version with all of its content, for whoever works on it.

        Raises:
            NotFound: there is no such document or version.
        """
        document = await self.get(caller, ref)
        version = await self.get_version(caller, document, number)
        source = version.source_sha256
        return Held(
            document,
            version,
            await self._whole(caller, version.sha256),
            (await self._whole(caller, source)).decode() if source is not None else None,
        )

    async def has_content(self, caller: Caller, sha256: str) -> bool:
        """Whether the tenant keeps something with this hash."""
        return await self._store.has(scope_of(caller), sha256)

    async def create(
        self, caller: Caller, made: Made, *, title: str, name: str | None, matter_id: str, about: UUID | None = None
    ) -> Placed:
        """Keep what a task made as a document, once; where the name has one already, as its next version.

        Raises:
            DocumentInvalid: the content is not of its type.
            DocumentTooLarge: it is too large.
            DocumentClosed: the document of that name is out for signature, or executed.
        """
        new = NewDocument(self._new_id(), name, title, matter_id, about)
        return _placed(await self._store.create(scope_of(caller), new, self._new(caller, made), reuse=True))

    async def append(self, caller: Caller, ref: str, made: Made, *, after: int | None = None) -> Placed:
        """Keep what a task made as the next version of a document, once; `after` says which must be the newest so far.

        A document that is out for signature takes signed versions and no others.

        Raises:
            NotFound: there is no such document.
            DocumentInvalid: the content is not of its type.
            DocumentTooLarge: it is too large.
            DocumentClosed: it takes no such version.
            VersionMoved: another version came in between.
        """
        added = await self._store.add_version(scope_of(caller), ref, self._new(caller, made), expected=after)
        if added is None:
            raise NotFound("document", ref)
        if isinstance(added, int):
            raise VersionMoved(expected=after or 0, current=added)
        return _placed(added)

    async def find_made(self, caller: Caller, task_id: UUID, step: str) -> Placed | None:
        """What an earlier attempt at a task has kept already."""
        row = await self._store.find_made(scope_of(caller), _origin(task_id, step))
        return _placed(row) if row is not None else None

    async def move(
        self, caller: Caller, ref: str, to: m.DocumentState, *, executed_version: int | None = None
    ) -> m.DocumentView:
        """Into another state: sent when it goes out, draft when that was voided, executed when all have signed.

        Safe to repeat: a document that is there already stays there.

        Raises:
            NotFound: there is no such document.
            DocumentClosed: it was executed.
        """
        document = await self.get(caller, ref)
        after = [state.value for state in m.DocumentState if state not in (to, m.DocumentState.EXECUTED)]
        moved = await self._store.move(
            scope_of(caller), document.id, to=to.value, after=after, executed_version=executed_version
        )
        now = await self.get(caller, str(document.id))
        if not moved and now.state is not to:
            raise DocumentClosed(now.state.value)
        return now

    async def _create(self, caller: Caller, given: m.AddDocument, version: NewVersion) -> Record:
        if given.title is None:
            raise InvalidInput.of("title", "a new document needs one")
        if given.expected_version is not None:
            raise InvalidInput.of("expected_version", "a new document has no version yet")
        new = NewDocument(self._new_id(), given.name, given.title, given.matter_id)
        return await self._store.create(scope_of(caller), new, version)

    async def _append(self, caller: Caller, ref: str, version: NewVersion, given: m.AddDocument) -> Record:
        expected = given.expected_version
        for field in ("title", "name", "matter_id"):
            if getattr(given, field) is not None:
                raise InvalidInput.of(field, "is for a new document; a version of one has none of its own")
        added = await self._store.add_version(scope_of(caller), ref, version, expected=expected)
        if added is None:
            raise NotFound("document", ref)
        if isinstance(added, int):
            raise Stale("document", expected=expected or 0, current=added)
        return added

    def _new(self, caller: Caller, made: Made) -> NewVersion:
        self._check(made.content, made.media_type)
        source = made.source.encode() if made.source is not None else None
        return NewVersion(
            kind=made.kind.value,
            media_type=made.media_type.value,
            content=made.content,
            sha256=hashlib.sha256(made.content).digest(),
            made_by=caller.subject,
            task_id=made.task_id,
            origin=_origin(made.task_id, made.step),
            template=made.template,
            fields=made.fields,
            source=source,
            source_sha256=hashlib.sha256(source).digest() if source is not None else None,
        )

    def _check(self, content: bytes, media_type: m.MediaType) -> None:
        if len(content) > self._max_bytes:
            raise DocumentTooLarge(len(content), limit_bytes=self._max_bytes)
        check_content(content, media_type)

    async def _whole(self, caller: Caller, sha256: str) -> bytes:
        content = await self._store.read(scope_of(caller), sha256, offset=0, length=2**30)
        if content is None:
            raise NotFound("content", sha256)
        return content


def _origin(task_id: UUID, step: str) -> str:
    return f"{task_id}:{step}"


def _placed(row: Record) -> Placed:
    return Placed(row["document_id"], _version(row))


def _version(row: Record) -> m.VersionView:
    return m.VersionView(**row, uri=m.uri_of(row["document_id"], row["version"]))


def _document(row: Record) -> m.DocumentView:
    return m.DocumentView(**row, uri=m.uri_of(row["id"], row["version"]))
