"""Works on PDFs in a process of their own, which has little memory, little time, and nothing to give away."""

import asyncio
import base64
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, cast

import orjson

from dragoman.errors import ExtraMissing
from dragoman.services.contracts.errors import DocumentInvalid
from dragoman.services.signatures.certificates import CertificateAuthority, Identity

EXTRA: Final = "contracts"
_PDF: Final = "application/pdf"
_AT_ONCE: Final = 2
_TIMEOUT_S: Final = 40.0
_IDLE_S: Final = 60.0
_CHILD: Final = "dragoman.services.signatures.child"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """What a signature says beside who signed: in its dictionary, and on the page for people."""

    name: str
    reason: str
    text: str


class Press:
    """Signs and inspects PDFs; a few at once, the others wait. Its processes begin with the first and end when idle."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self._authority = authority
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._idle: list[_Child] = []
        self._retirement: asyncio.TimerHandle | None = None

    async def stop(self) -> None:
        """End its processes."""
        if self._retirement is not None:
            self._retirement.cancel()
        while self._idle:
            await self._idle.pop().end()

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
            child = await self._child()
            try:
                answer = await child.ask(request)
            except BaseException:
                # Whatever it was at, nobody waits for it any more.
                await child.end()
                raise
            self._idle.append(child)
            self._retire_later()
        if (reason := answer.get("refused")) is not None:
            raise DocumentInvalid(_PDF, reason)
        return answer

    async def _child(self) -> "_Child":
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
        return await _Child.start()

    def _retire_later(self) -> None:
        if self._retirement is not None:
            self._retirement.cancel()
        self._retirement = asyncio.get_running_loop().call_later(_IDLE_S, self._retire)

    def _retire(self) -> None:
        for child in self._idle:
            child.close()
        self._idle.clear()


class _Child:
    """One process; it ends with its input, so also when this one is killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._in = cast("asyncio.StreamWriter", process.stdin)
        self._out = cast("asyncio.StreamReader", process.stdout)

    @classmethod
    async def start(cls) -> "_Child":
        # An environment of its own: what the server was given is none of its business.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _CHILD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PYTHONPATH": ":".join(entry for entry in sys.path if entry)},
        )
        return cls(process)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, request: bytes) -> Json:
        """Its answer.

        Raises:
            DocumentInvalid: it died of the question, or did not come to an end.
        """
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                self._in.write(len(request).to_bytes(4, "big") + request)
                await self._in.drain()
                size = int.from_bytes(await self._out.readexactly(4), "big")
                return orjson.loads(await self._out.readexactly(size))
        except TimeoutError:
            raise DocumentInvalid(_PDF, "it takes too long to read") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise DocumentInvalid(_PDF, "it takes more than there is to read it") from None

    def close(self) -> None:
        """Let it end."""
        self._in.close()

    async def end(self) -> None:
        """End it now."""
        if self.alive:
            self._process.kill()
        await self._process.wait()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
