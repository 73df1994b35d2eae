"""When a contract is executed: all have signed, and it can be shown."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from dragoman.context import Caller
from dragoman.operations import Input
from dragoman.services.contracts.documents import DocumentService, Held
from dragoman.services.contracts.errors import DocumentClosed, EvidenceUnknown, NotSigned
from dragoman.services.contracts.models import DocumentState, DocumentView, MediaType, VersionNumber
from dragoman.services.contracts.ports import SignatureVerdict, SignatureVerifier
from dragoman.text import Text


class ShownBy(Input):
    """Something this tenant keeps that shows the execution: a scan of the signed page, a certificate of a provider."""

    kind: Literal["signature", "document"] = "document"
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Of a content that the tenant keeps.")
    note: Annotated[Text, StringConstraints(min_length=1, max_length=1_000)] | None = None


class MarkExecuted(Input):
    """Say that a document is executed."""

    version: VersionNumber | None = Field(None, description="The version that was signed; by default the one acted on.")
    evidence: tuple[ShownBy, ...] = Field(
        default=(), max_length=50, description="What shows it, where the version does not carry its signatures."
    )


@dataclass(frozen=True, slots=True)
class Executed:
    """A document that is executed, and by what it is shown."""

    document: DocumentView
    held: Held
    verdict: SignatureVerdict
    shown_by: tuple[ShownBy, ...]


class Execution:
    """Marks documents as executed, and none without something to show for it."""

    def __init__(self, documents: DocumentService, verifier: SignatureVerifier) -> None:
        self._documents = documents
        self._verifier = verifier

    async def mark(self, caller: Caller, ref: str, version: int | None, given: MarkExecuted) -> Executed:
        """Mark it, by its own signatures or by the evidence that is given. Safe to repeat.

        Raises:
            NotFound: there is no such document or version.
            EvidenceUnknown: the tenant keeps nothing with a hash that is given as evidence.
            NotSigned: its signatures do not hold, and there is no evidence.
            DocumentClosed: another version of it was executed.
        """
        held = await self._documents.read(caller, ref, given.version or version)
        unknown = [one.sha256 for one in given.evidence if not await self._documents.has_content(caller, one.sha256)]
        if unknown:
            raise EvidenceUnknown(unknown)
        verdict = await self._look(caller, held)
        if not verdict.valid and not given.evidence:
            raise NotSigned(held.version.version, verdict.explanation)
        number = held.version.version
        document = await self._documents.move(
            caller, str(held.document.id), DocumentState.EXECUTED, executed_version=number
        )
        if document.executed_version != number:
            raise DocumentClosed(document.state.value)
        return Executed(document, held, verdict, given.evidence)

    async def _look(self, caller: Caller, held: Held) -> SignatureVerdict:
        if held.version.media_type is not MediaType.PDF:
            return SignatureVerdict(valid=False, explanation="it is no PDF, and carries no signatures")
        return await self._verifier.verify(caller, held.document.id, held.content, sha256=held.version.sha256)
