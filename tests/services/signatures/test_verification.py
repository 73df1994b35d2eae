"""The cryptography: what is signed is so for pyHanko's own validator, and what was touched is called so."""

import asyncio
import hashlib
import io
import random
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
import typst
from asn1crypto import x509
from cryptography.hazmat.primitives.asymmetric import ec
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation import validate_pdf_signature
from pyhanko.sign.validation.status import SignatureCoverageLevel
from pyhanko_certvalidator import ValidationContext

from dragoman.services.contracts.errors import DocumentInvalid
from dragoman.services.signatures.certificates import CertificateAuthority, Holder
from dragoman.services.signatures.models import Verdict, Verification
from dragoman.services.signatures.press import Mark, Press
from dragoman.services.signatures.verification import verify

Verified = Callable[[bytes], Verification]
NOW = datetime.now(UTC)
OURS = CertificateAuthority(ec.generate_private_key(ec.SECP256R1()))
OTHERS = CertificateAuthority(ec.generate_private_key(ec.SECP256R1()))


def signed_by(pdf: bytes, *names: str, authority: CertificateAuthority = OURS) -> bytes:
    async def sign() -> bytes:
        content, press = pdf, Press(authority)
        for name in names:
            holder = Holder(name, "Acme", f"{name.partition(' ')[0].lower()}@example.com")
            mark = Mark(name, "I agree", f"Signed by {name} (100%)")
            content = await press.sign(content, authority.issue(holder, at=NOW), mark)
        await press.stop()
        return content

    return asyncio.run(sign())


@pytest.fixture(scope="module")
def verified() -> Iterator[Verified]:
    """Verification by one press for all tests."""
    press = Press(OURS)
    with asyncio.Runner() as runner:
        yield lambda pdf: runner.run(verify(press, pdf, sha256=hashlib.sha256(pdf).hexdigest()))
        runner.run(press.stop())


@pytest.fixture(scope="module")
def plain() -> bytes:
    return typst.compile(b"= Mutual NDA\n\nBetween Acme and Beta.")


@pytest.fixture(scope="module")
def signed(plain: bytes) -> bytes:
    return signed_by(plain, "Ada Lovelace", "Łukasz Żółw")


def test_a_signed_pdf_is_good_for_the_validator_of_pyhanko(plain: bytes, signed: bytes) -> None:
    """Two signers: what the first signed is in the file byte by byte, and the second covers all of it."""
    trusted = ValidationContext(trust_roots=[x509.Certificate.load(OURS.certificate)], allow_fetching=False)
    found = PdfFileReader(io.BytesIO(signed)).embedded_signatures
    statuses = [validate_pdf_signature(one, trusted) for one in found]

    assert [status.bottom_line for status in statuses] == [True, True]
    assert statuses[-1].coverage is SignatureCoverageLevel.ENTIRE_FILE
    assert [one.sig_object["/SubFilter"] for one in found] == ["/ETSI.CAdES.detached"] * 2
    assert signed.startswith(plain)


def test_verification_names_the_signers(verified: Verified, signed: bytes) -> None:
    report = verified(signed)

    assert (report.verdict, report.valid, report.pages) == (Verdict.VALID, True, 1)
    assert [(one.signer, one.email, one.organisation) for one in report.signatures] == [
        ("Ada Lovelace", "ada@example.com", "Acme"),
        ("Łukasz Żółw", None, "Acme"),
    ]


def _flip(pdf: bytes, at: int) -> bytes:
    return pdf[:at] + bytes([pdf[at] ^ 1]) + pdf[at + 1 :]


def _rewrite_a_word(pdf: bytes) -> bytes:
    at = pdf.index(b"/Producer") if b"/Producer" in pdf else pdf.index(b"/Type")
    return _flip(pdf, at + 3)


TOUCHED: dict[str, tuple[Callable[[bytes], bytes], Verdict]] = {
    "a byte of the text": (lambda pdf: _flip(pdf, 600), Verdict.TAMPERED),
    "a byte of a name": (_rewrite_a_word, Verdict.TAMPERED),
    "a byte of the trailer": (lambda pdf: _flip(pdf, len(pdf) - 8), Verdict.TAMPERED),
    "the padding of a signature": (lambda pdf: pdf.replace(b"0000>", b"0001>", 1), Verdict.TAMPERED),
    "bytes at the end": (lambda pdf: pdf + b"\n% paid in full\n", Verdict.MODIFIED),
    "its end": (lambda pdf: pdf[: pdf.rindex(b"/ByteRange") + 200], Verdict.TAMPERED),
}


@pytest.mark.parametrize("what", TOUCHED)
def test_what_was_touched_is_called_so(verified: Verified, signed: bytes, what: str) -> None:
    touch, verdict = TOUCHED[what]

    assert verified(touch(signed)).verdict is verdict


def test_no_byte_can_be_flipped_unnoticed(verified: Verified, signed: bytes) -> None:
    """Anywhere outside the signatures themselves, whose padding is looked at by a case above."""
    chosen = random.Random(4711)
    holes = [(match.start(), match.end()) for match in re.finditer(rb"/Contents\s*<[0-9a-fA-F]+>", signed)]
    places = [at for at in range(len(signed)) if not any(start <= at < end for start, end in holes)]

    verdicts = {verified(_flip(signed, at)).verdict for at in [*chosen.sample(places[9:], 25), places[-2]]}

    assert verdicts <= {Verdict.TAMPERED, Verdict.MODIFIED}


def test_a_signature_that_others_vouch_for_is_not_ours(verified: Verified, plain: bytes) -> None:
    report = verified(signed_by(plain, "Eve", authority=OTHERS))

    assert (report.verdict, report.valid) == (Verdict.UNTRUSTED, False)
    assert report.signatures[0].intact


def test_a_pdf_without_signatures_is_unsigned(verified: Verified, plain: bytes) -> None:
    assert verified(plain).verdict is Verdict.UNSIGNED


def _bomb() -> bytes:
    """A cross-reference stream of a few kilobytes that unpacks to gigabytes."""
    packer = zlib.compressobj(9)
    beginning, block = (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    packed = zlib.compress(beginning + block * 3000, 9)
    head = b"1 0 obj\n<</Type/XRef/Size 2/W[1 2 1]/Root 1 0 R/Filter[/FlateDecode/FlateDecode]/Length "
    stream = str(len(packed)).encode() + b">>\nstream\n" + packed + b"\nendstream\nendobj\nstartxref\n9\n%%EOF"
    return b"%PDF-1.7\n" + head + stream


NO_PDF = {
    "nothing": b"",
    "text": b"hello",
    "another archive": b"PK\x03\x04",
    "a beginning": b"%PDF-1.7\n",
    "deep nesting": b"%PDF-1.7\n" + b"(" * 100_000,
    "a bomb": _bomb(),
}


@pytest.mark.parametrize("what", NO_PDF)
def test_what_is_no_pdf_is_refused(verified: Verified, what: str) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        verified(NO_PDF[what])

    assert caught.value.code == "DOCUMENT_INVALID"


def test_the_certificate_of_the_authority_follows_from_its_key() -> None:
    """Every process makes it by itself, and all make the same."""
    key = ec.generate_private_key(ec.SECP256R1())

    assert CertificateAuthority(key).certificate == CertificateAuthority(key).certificate
