"""Works on PDFs in a process of their own, which has little memory, little time, and nothing to give away."""

import asyncio
import base64
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import orjson

from dragoman.errors import ExtraMissing
from dragoman.services.contracts.errors import DocumentInvalid
from dragoman.services.signatures.certificates import CertificateAuthority, Identity

EXTRA: Final = "contracts"
_PDF: Final = "application/pdf"
_AT_ONCE: Final = 2
_TIMEOUT_S: Final = 40.0
_CHILD: Final = "dragoman.services.signatures.child"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """What a signature says beside who signed: in its dictionary, and on the page for people."""

    name: str
    reason: str
    text: str


class Press:
    """Signs and inspects PDFs; a few at once, the others wait."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self._authority = authority
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def sign(self, pdf: bytes, identity: Identity, mark: Mark) -> bytes:
        """The PDF with one more signature in the form of PAdES; signatures that were there stay good.

        Raises:
            DocumentInvalid: it is no PDF, or none that can be signed.
            ExtraMissing: this installation cannot sign.
        """
        answer = await self._ask(
            pdf,
            do="sign",
            certificate=_text(identity.certificate),
            key=_text(identity.key),
            name=mark.name,
            reason=mark.reason,
            mark=mark.text,
        )
        return base64.b64decode(answer["pdf"])

    async def inspect(self, pdf: bytes) -> Json:
        """How many pages it has, and its signatures one by one.

        Raises:
            DocumentInvalid: it is no PDF, or cannot be read.
            ExtraMissing: this installation cannot read PDFs.
        """
        return await self._ask(pdf, do="inspect")

    async def _ask(self, pdf: bytes, **asked: Any) -> Json:
        if find_spec("pyhanko") is None:
            raise ExtraMissing(EXTRA)
        if not pdf.startswith(b"%PDF-"):
            raise DocumentInvalid(_PDF, "it does not begin as a PDF does")
        request = orjson.dumps({**asked, "pdf": _text(pdf), "authority": _text(self._authority.certificate)})
        async with self._room:
            answer = await _run(request)
        if (reason := answer.get("refused")) is not None:
            raise DocumentInvalid(_PDF, reason)
        return answer


async def _run(request: bytes) -> Json:
    # An environment of its own: what the server was given is none of its business.
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        _CHILD,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": ":".join(entry for entry in sys.path if entry), "PYTHONUNBUFFERED": "1"},
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            said, _ = await child.communicate(request)
    except TimeoutError:
        raise DocumentInvalid(_PDF, "it takes too long to read") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0 or not said:
        raise DocumentInvalid(_PDF, "it takes more than there is to read it")
    return orjson.loads(said)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
