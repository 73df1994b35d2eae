"""The documents that envelopes act on: whether they exist, what they are now, and what a person must see of them."""

import re
from typing import Any, Final

from dragoman.blocking import Threads
from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound
from dragoman.services.contracts.diff import edits
from dragoman.services.contracts.documents import DocumentService, Held
from dragoman.services.contracts.errors import DocumentClosed, VersionMoved, WrongContent
from dragoman.services.contracts.models import DocumentState, DocumentView, VersionView
from dragoman.services.contracts.prose import write_markdown
from dragoman.services.contracts.wording import Unreadable, read_wording
from dragoman.services.tasks.actions.envelope import Resource
from dragoman.services.tasks.actions.ports import Bound, Target

_TYPE: Final = "document"
_MAKES_IT: Final = "document.draft"
_VERSION: Final = re.compile(r"v?(\d{1,9})")
# What a decider is shown of a text, and of what changed in it; all of it can be read as a document.
_MOST_SHOWN: Final = 20_000
_MOST_EDITS: Final = 300
_AROUND: Final = 2


def version_of(resource: Resource) -> int | None:
    """The number of the version that is acted on: `2` or `v2`; None when none is named.

    Raises:
        InvalidInput: it is no number of a version.
    """
    if resource.version is None:
        return None
    match = _VERSION.fullmatch(resource.version)
    if match is None or int(match[1]) == 0:
        raise InvalidInput.of("resource.version", "must be the number of a version, such as 2")
    return int(match[1])


class DocumentResources:
    """Checks the resource of an action against the documents of the tenant."""

    def __init__(self, documents: DocumentService) -> None:
        self._documents = documents
        self._threads = Threads("documents", 4, share=2)

    def covers(self, target: Target) -> bool:
        """Check whether the target is a document."""
        return target.resource.type == _TYPE

    async def bind(self, caller: Caller, target: Target) -> Bound:
        """Return the version that is acted on, with its hash; a document that is to be drafted need not exist yet.

        A sensitive action is for the newest version: an older one may be compared, not signed. Versions that the task
        of the target has made itself do not count.

        Raises:
            InvalidInput: the version is no number.
            NotFound: there is no such document or version.
            WrongContent: it has another hash.
            VersionMoved: a sensitive action is asked for on a version that is not the newest.
            DocumentClosed: it is to be drafted, and is out for signature or executed.
        """
        resource = target.resource
        number = version_of(resource)
        document = await self._documents.find(caller, resource.id)
        if target.action == _MAKES_IT:
            if document is not None and document.state is not DocumentState.DRAFT:
                raise DocumentClosed(document.state.value)
            return Bound()
        if document is None:
            raise NotFound("document", resource.id)
        newest = await self._newest(caller, document, target)
        version = newest if number is None else await self._documents.get_version(caller, document, number)
        if resource.sha256 is not None and resource.sha256 != version.sha256:
            raise WrongContent(expected=resource.sha256, current=version.sha256, version=version.version)
        if target.sensitive and version.version != newest.version:
            raise VersionMoved(expected=version.version, current=newest.version)
        return Bound(str(version.version), version.sha256)

    async def show(self, caller: Caller, target: Target, *, since: str | None) -> dict[str, Any]:
        """Return the document with its text, and what changed since the version approved last, or the one before."""
        if target.action == _MAKES_IT:
            return {}
        return await self.show_version(caller, target.resource.id, version_of(target.resource), since=since)

    async def show_version(
        self, caller: Caller, ref: str, number: int | None, *, since: str | None = None
    ) -> dict[str, Any]:
        """Return a version with its text, and what changed in it since another."""
        held = await self._documents.read(caller, ref, number)
        shown = held.version
        before = int(since) if since is not None and since.isdecimal() and int(since) < shown.version else None
        before = shown.version - 1 if before is None else before
        earlier = await self._documents.read(caller, ref, before) if before > 0 else None
        texts = await self._threads.run(caller.tenant, _texts, held, earlier)
        return {
            "document": {
                "id": str(held.document.id),
                "name": held.document.name,
                "title": held.document.title,
                "state": held.document.state.value,
                "newest_version": held.document.version,
                "version": shown.version,
                "kind": shown.kind.value,
                "sha256": shown.sha256,
                "media_type": shown.media_type.value,
                "size_bytes": shown.size_bytes,
                "made_by": shown.made_by,
                "made_at": shown.made_at.isoformat(),
                "template": shown.template,
                "fields": shown.fields,
                "uri": shown.uri,
                "compared_with": before if earlier is not None else None,
                **texts,
            }
        }

    async def _newest(self, caller: Caller, document: DocumentView, target: Target) -> VersionView:
        version = await self._documents.get_version(caller, document, None)
        while target.task_id is not None and version.task_id == target.task_id and version.version > 1:
            version = await self._documents.get_version(caller, document, version.version - 1)
        return version


def _texts(held: Held, earlier: Held | None) -> dict[str, Any]:
    """Return the text of a version and its changes, each within what a decider is shown."""
    text = _text(held)
    if text is None:
        return {"text": None, "changes": None, "cut": False}
    before = _text(earlier) if earlier is not None else None
    changes = _changes(before, text) if before is not None else None
    cut = len(text) > _MOST_SHOWN or (changes is not None and len(changes) > _MOST_SHOWN)
    return {"text": text[:_MOST_SHOWN], "changes": changes[:_MOST_SHOWN] if changes is not None else None, "cut": cut}


def _text(held: Held) -> str | None:
    wording = read_wording(held)
    if isinstance(wording, Unreadable):
        return None
    return wording.raw if wording.raw is not None else write_markdown(wording.blocks)


def _changes(before: str, after: str) -> str:
    """Return what changed line by line, `-` before what is gone and `+` before what is new, with lines around it."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = []
    for edit in edits(old, new, most=_MOST_EDITS):
        if edit.changed:
            lines += [f"- {line}" for line in old[slice(*edit.old)]]
            lines += [f"+ {line}" for line in new[slice(*edit.new)]]
        else:
            same = old[slice(*edit.old)]
            head = same[:_AROUND] if lines else []
            tail = same[max(len(head), len(same) - _AROUND) :] if edit.old[1] < len(old) else []
            gap = ["  ..."] if len(head) + len(tail) < len(same) else []
            lines += [*(f"  {line}" for line in head), *gap, *(f"  {line}" for line in tail)]
    return "\n".join(lines)
