"""Where exports lie, whatever the protocol: what is there, and its bytes."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import httpx

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.outbound import NotResolved, OutboundRefused
from dragoman_costs.accounts.models import CredentialStatus

# What is kept of an answer that refuses: an error of S3 is a few hundred bytes.
_MOST_ERROR_BYTES: Final = 8_192


class ExportProblem(Exception):
    """Exports cannot be read. The message may be shown to the tenant: it holds no secret and no bytes of an answer.

    `credential` is what this says of the credential, None where it says nothing. A `passing` one may be over soon.
    """

    def __init__(self, message: str, *, credential: CredentialStatus | None = None, passing: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.credential = credential
        self.passing = passing


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file of an export. `version` changes whenever its content does; None where the store does not tell."""

    name: str
    version: str | None
    size_bytes: int | None


class ExportSource(Protocol):
    """An address at which exports lie."""

    async def list_page(self, after: str | None) -> tuple[list[ExportFile], str | None]:
        """Return some files, and where to go on.

        Raises:
            ExportProblem: the address or the credential is not good.
        """
        ...

    def open(self, name: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Give the content of a file, piece by piece; entering it raises as `list_page` does."""
        ...


class Answer:
    """An answer whose body may still be on its way."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response = response

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            ExportProblem: it ended too early, or is too large.
        """
        with _told():
            return b"".join([piece async for piece in self._response.aiter_raw()])

    async def read_error(self) -> bytes:
        """Return the beginning of the body of a refusal."""
        kept = b""
        with _told():
            async for piece in self._response.aiter_raw():
                kept += piece
                if len(kept) >= _MOST_ERROR_BYTES:
                    break
        return kept[:_MOST_ERROR_BYTES]

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Give the body, as it was sent: a file that is compressed stays so."""
        with _told():
            async for piece in self._response.aiter_raw():
                yield piece


@asynccontextmanager
async def asking(client: httpx.AsyncClient, method: str, url: str, headers: dict[str, str]) -> AsyncGenerator[Answer]:
    """Send a request, and give the answer as soon as it begins.

    Raises:
        ExportProblem: there is no answer.
    """
    request = client.build_request(method, url, headers=headers | {"accept-encoding": "identity"})
    with _told():
        response = await client.send(request, stream=True)
    try:
        yield Answer(response)
    finally:
        await response.aclose()


@contextmanager
def _told() -> Generator[None]:
    """Say what went wrong on the way, in place of what the client raises."""
    try:
        yield
    except OutboundRefused as error:
        raise ExportProblem(f"the address of the exports is refused: {error.message}") from None
    except UpstreamUnavailable:
        raise ExportProblem(
            "the host of the exports did not answer lately; it is left alone for a while", passing=True
        ) from None
    except NotResolved:
        raise ExportProblem("the host of the exports cannot be resolved", passing=True) from None
    except httpx.TimeoutException:
        raise ExportProblem("the host of the exports does not answer in time", passing=True) from None
    except (httpx.TransportError, httpx.StreamError):
        raise ExportProblem("the host of the exports cannot be reached, or broke off", passing=True) from None
    except httpx.InvalidURL:
        raise ExportProblem("nothing can be sent to the address of the exports") from None
