"""Works on PDFs in a process of their own, which has little memory, little time, and nothing to give away."""

import base64
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from dragoman.blocking import TooManyWaiting
from dragoman.context import TenantId
from dragoman.errors import ExtraMissing, RateLimited, TimedOut
from dragoman.infra.children import ChildDied, Children, ChildTimedOut, Limits
from dragoman.services.contracts.errors import DocumentInvalid, DocumentTooComplex
from dragoman.services.signatures.certificates import CertificateAuthority, Identity

EXTRA: Final = "contracts"
_PDF: Final = "application/pdf"
_CHILD: Final = "dragoman.services.signatures.child"
# A contract takes a tenth of a second. The clock is for a machine that has no time for us.
LIMITS: Final = Limits(timeout_s=40, cpu_s=10, memory_bytes=1 << 30)
# Who signs waits within a transaction: all that wait must not take the connections of other tenants.
_MOST_SIGNING: Final = 8
_MOST_INSPECTED: Final = 32
_RETRY_AFTER_S: Final = 5
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """What a signature says beside who signed: in its dictionary, and on the page for people."""

    name: str
    reason: str
    text: str


class Press:
    """Signs and inspects PDFs: a few at once, one for each tenant; the others wait."""

    def __init__(self, authority: CertificateAuthority, *, limits: Limits = LIMITS) -> None:
        self._authority = authority
        self._limits = limits
        self._children = Children(_CHILD, size=4, share=1, limits=limits)

    async def stop(self) -> None:
        """End its processes."""
        await self._children.stop()

    async def sign(self, pdf: bytes, identity: Identity, mark: Mark, *, tenant: TenantId) -> bytes:
        """The PDF with one more signature in the form of PAdES; signatures that were there stay good.

        Raises:
            DocumentInvalid: it is no PDF, or none that can be signed.
            DocumentTooComplex: reading it takes more than one document may.
            RateLimited: too many of the tenant wait.
            TimedOut: the machine has no time for it.
            ExtraMissing: this installation cannot sign.
        """
        answer = await self._ask(
            pdf,
            tenant,
            _MOST_SIGNING,
            do="sign",
            certificate=_text(identity.certificate),
            key=_text(identity.key),
            issuers=[_text(issuer) for issuer in identity.issuers],
            name=mark.name,
            reason=mark.reason,
            mark=mark.text,
        )
        return base64.b64decode(answer["pdf"])

    async def inspect(self, pdf: bytes, *, tenant: TenantId) -> Json:
        """How many pages it has, and its signatures one by one.

        Raises:
            DocumentInvalid: it is no PDF, or cannot be read.
            DocumentTooComplex: reading it takes more than one document may.
            RateLimited: too many of the tenant wait.
            TimedOut: the machine has no time for it.
            ExtraMissing: this installation cannot read PDFs.
        """
        return await self._ask(pdf, tenant, _MOST_INSPECTED, do="inspect")

    async def lay_out(self, pdf: bytes, *, tenant: TenantId) -> Json:
        """How many pages it has, and the size of the last one. Raises as `inspect` does."""
        return await self._ask(pdf, tenant, _MOST_INSPECTED, do="lay out")

    async def _ask(self, pdf: bytes, tenant: TenantId, most_waiting: int, **asked: Any) -> Json:
        if find_spec("pyhanko") is None:
            raise ExtraMissing(EXTRA)
        if not pdf.startswith(b"%PDF-"):
            raise DocumentInvalid(_PDF, "it does not begin as a PDF does")
        request = {**asked, "pdf": _text(pdf), "authority": _text(self._authority.certificate)}
        try:
            answer = await self._children.ask(tenant, request, most_waiting=most_waiting)
        except TooManyWaiting:
            raise RateLimited("pdf", retry_after_s=_RETRY_AFTER_S) from None
        except ChildTimedOut:
            raise TimedOut(after_s=self._limits.timeout_s) from None
        except ChildDied:
            raise DocumentTooComplex(_PDF, "reading it takes too much time or memory") from None
        if (excess := answer.get("exceeded")) is not None:
            raise DocumentTooComplex(_PDF, excess)
        if (reason := answer.get("refused")) is not None:
            raise DocumentInvalid(_PDF, reason)
        return answer


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
