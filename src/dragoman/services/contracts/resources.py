"""The documents that envelopes act on: are they there, and are they what the caller believes them to be?"""

import re
from typing import Final

from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound
from dragoman.services.contracts.documents import DocumentService
from dragoman.services.contracts.errors import DocumentClosed, VersionMoved, WrongContent
from dragoman.services.contracts.models import DocumentState
from dragoman.services.tasks.actions.envelope import Envelope, Resource
from dragoman.services.workers.protocol import Capability

_TYPE: Final = "document"
_MAKES_IT: Final = "document.draft"
_VERSION: Final = re.compile(r"v?(\d{1,9})")


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
    """Holds the resource of an envelope against the documents of the tenant."""

    def __init__(self, documents: DocumentService) -> None:
        self._documents = documents

    async def check(self, caller: Caller, envelope: Envelope, capability: Capability) -> None:
        """Refuse what is not there, or is not what the caller knows; what is to be drafted need not be there yet.

        A sensitive action is for the newest version: an older one may be compared, not signed.

        Raises:
            InvalidInput: the version is no number.
            NotFound: there is no such document or version.
            WrongContent: it has another hash.
            VersionMoved: a sensitive action is asked for on a version that is not the newest.
            DocumentClosed: it is to be drafted, and is out for signature or executed.
        """
        resource = envelope.resource
        if resource.type != _TYPE:
            return
        number = version_of(resource)
        document = await self._documents.find(caller, resource.id)
        if envelope.action == _MAKES_IT:
            if document is not None and document.state is not DocumentState.DRAFT:
                raise DocumentClosed(document.state.value)
            return
        if document is None:
            raise NotFound("document", resource.id)
        version = await self._documents.get_version(caller, document, number)
        if resource.sha256 is not None and resource.sha256 != version.sha256:
            raise WrongContent(expected=resource.sha256, current=version.sha256, version=version.version)
        if capability.sensitive and version.version != document.version:
            raise VersionMoved(expected=version.version, current=document.version)
