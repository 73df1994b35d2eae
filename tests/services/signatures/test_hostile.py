"""PDFs made to keep the server busy end with their process, and the next PDF is read as ever."""

import asyncio
from uuid import UUID

import pytest
import typst
from cryptography.hazmat.primitives.asymmetric import ec

from dragoman.context import TenantId
from dragoman.errors import DragomanError
from dragoman.infra.children import Limits
from dragoman.services.signatures.certificates import CertificateAuthority
from dragoman.services.signatures.press import Press
from tests.patience import PATIENCE_S
from tests.services.signatures.bombs import BOMBS

AUTHORITY = CertificateAuthority(ec.generate_private_key(ec.SECP256R1()))
LIMITS = Limits(timeout_s=int(PATIENCE_S), cpu_s=1, memory_bytes=1 << 30)
MALLORY, ADA = TenantId(UUID(int=1)), TenantId(UUID(int=2))


@pytest.mark.parametrize(
    ("bomb", "reason"),
    [
        ("endless", "TOO_COMPLEX"),
        ("swollen", "PdfDecodeLimitError"),
        ("revised", "TOO_COMPLEX"),
        ("nested", "RecursionError"),
    ],
)
def test_a_pdf_that_asks_for_too_much_is_refused_and_the_next_is_read(bomb: str, reason: str) -> None:
    """Review finding 15: 40 KB held a process for as long as its reader liked."""

    async def read() -> tuple[DragomanError, int]:
        press = Press(AUTHORITY, limits=LIMITS)
        with pytest.raises(DragomanError) as caught:
            await press.inspect(BOMBS[bomb](), tenant=MALLORY)
        found = await press.inspect(typst.compile(b"= NDA"), tenant=ADA)
        await press.stop()
        return caught.value, found["pages"]

    error, pages = asyncio.run(read())

    assert error.code == "DOCUMENT_INVALID"
    assert str(error.details["reason"]).startswith(reason)
    assert pages == 1


def test_a_million_pages_cost_no_more_than_one() -> None:
    async def read() -> int:
        press = Press(AUTHORITY, limits=LIMITS)
        found = await press.inspect(BOMBS["paged"](), tenant=MALLORY)
        await press.stop()
        return found["pages"]

    assert asyncio.run(read()) == 1_000_000
