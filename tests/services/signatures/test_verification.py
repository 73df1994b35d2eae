"""The cryptography: what is signed is so for pyHanko's own validator, and what was touched is called so."""

import asyncio
import hashlib
import io
import random
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
import typst
from asn1crypto import x509
from cryptography import x509 as x509c
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation import validate_pdf_signature
from pyhanko.sign.validation.status import SignatureCoverageLevel
from pyhanko_certvalidator import ValidationContext

from dragoman.context import TenantId
from dragoman.services.contracts.errors import DocumentInvalid
from dragoman.services.signatures.certificates import CertificateAuthority, Holder, Identity, TenantAuthority
from dragoman.services.signatures.models import Verdict, Verification, VerifiedBy, Voucher
from dragoman.services.signatures.press import Mark, Press
from dragoman.services.signatures.verification import verify

Verified = Callable[[bytes], Verification]
NOW = datetime.now(UTC)
TENANT = TenantId(UUID(int=1))
OURS = CertificateAuthority(ec.generate_private_key(ec.SECP256R1()))
OTHERS = CertificateAuthority(ec.generate_private_key(ec.SECP256R1()))


def signed_by(pdf: bytes, *names: str, authority: CertificateAuthority = OURS, tenant: TenantId = TENANT) -> bytes:
    async def sign() -> bytes:
        content, press = pdf, Press(authority)
        for name in names:
            holder = Holder(name, f"{name.partition(' ')[0].lower()}@example.com", VerifiedBy.USER_RECORD)
            mark = Mark(name, "I agree", f"Signed by {name} (100%)")
            content = await press.sign(
                content, authority.of_tenant(tenant, "Acme").issue(holder, at=datetime.now(UTC)), mark, tenant=TENANT
            )
        await press.stop()
        return content

    return asyncio.run(sign())


@pytest.fixture(scope="module")
def verified() -> Iterator[Verified]:
    """Verification by one press for all tests."""
    press = Press(OURS)
    with asyncio.Runner() as runner:
        yield lambda pdf: runner.run(
            verify(press, pdf, sha256=hashlib.sha256(pdf).hexdigest(), tenant=TENANT, organisation="acme")
        )
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
    assert {(one.authority, one.verified_by) for one in report.signatures} == {
        (Voucher.THIS_TENANT, VerifiedBy.USER_RECORD)
    }


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


def test_a_signature_of_another_tenant_is_not_ours(verified: Verified, plain: bytes) -> None:
    """Its administrators decide whom their user records name: intact, and no more ours than that of a stranger."""
    report = verified(signed_by(signed_by(plain, "Ada"), "Carla", tenant=TenantId(UUID(int=2))))

    assert (report.verdict, report.valid) == (Verdict.UNTRUSTED, False)
    assert [(one.signer, one.intact, one.trusted, one.authority) for one in report.signatures] == [
        ("Ada", True, True, Voucher.THIS_TENANT),
        ("Carla", True, False, Voucher.OTHER_TENANT),
    ]


@pytest.mark.parametrize(
    ("organisation", "verdict", "voucher"),
    [("acme", Verdict.VALID, Voucher.THIS_TENANT), ("beta", Verdict.UNTRUSTED, Voucher.OTHER_TENANT)],
)
def test_what_was_signed_before_tenants_had_authorities_still_verifies(
    organisation: str, verdict: Verdict, voucher: Voucher
) -> None:
    """The file was made by release 0.1 with the key of this installation: its one authority named the tenant."""
    pdf = Path(__file__).with_name("signed-by-one-authority.pdf").read_bytes()

    async def look() -> Verification:
        press = Press(CertificateAuthority(ec.derive_private_key(4711, ec.SECP256R1())))
        found = await verify(press, pdf, sha256="", tenant=TENANT, organisation=organisation)
        await press.stop()
        return found

    report = asyncio.run(look())

    assert (report.verdict, {one.authority for one in report.signatures}) == (verdict, {voucher})
    assert [one.signer for one in report.signatures] == ["Ada", "Bob"]


def forged(leaf: x509c.Name, issuer: TenantAuthority, *, ca: bool = False, at: datetime | None = None) -> Identity:
    """A certificate that the authority of a tenant never issues, made with its key as a thief would."""
    key, begin = ec.generate_private_key(ec.SECP256R1()), at or datetime.now(UTC)
    above = x509c.load_der_x509_certificate(issuer.certificate)
    certificate = (
        x509c.CertificateBuilder()
        .subject_name(leaf)
        .issuer_name(above.subject)
        .public_key(key.public_key())
        .serial_number(4711)
        .not_valid_before(begin - timedelta(minutes=5))
        .not_valid_after(begin + timedelta(minutes=5))
        .add_extension(x509c.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(_usage(ca=ca), critical=True)
        .sign(issuer._key, hashes.SHA256())  # pyright: ignore[reportPrivateUsage]
    )
    return _identity(certificate, key, (issuer.certificate, OURS.certificate))


def _identity(certificate: x509c.Certificate, key: ec.EllipticCurvePrivateKey, issuers: tuple[bytes, ...]) -> Identity:
    plain = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Identity(certificate.public_bytes(serialization.Encoding.DER), plain, issuers)


def _usage(*, ca: bool) -> x509c.KeyUsage:
    return x509c.KeyUsage(
        digital_signature=True, content_commitment=True, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=ca, crl_sign=ca, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _named(organisation: str) -> x509c.Name:
    return x509c.Name(
        [
            x509c.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
            x509c.NameAttribute(NameOID.COMMON_NAME, "Carla Ceo"),
        ]
    )


def _under_a_signer(plain: TenantAuthority) -> Identity:
    """A certificate issued by one that a tenant's authority made an authority."""
    between = forged(_named("Acme"), plain, ca=True)
    key = ec.generate_private_key(ec.SECP256R1())
    between_key, now = serialization.load_der_private_key(between.key, None), datetime.now(UTC)
    assert isinstance(between_key, ec.EllipticCurvePrivateKey)
    certificate = (
        x509c.CertificateBuilder()
        .subject_name(_named("Acme"))
        .issuer_name(x509c.load_der_x509_certificate(between.certificate).subject)
        .public_key(key.public_key())
        .serial_number(4712)
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(minutes=5))
        .add_extension(x509c.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .sign(between_key, hashes.SHA256())
    )
    return _identity(certificate, key, (between.certificate, *between.issuers))


STOLEN: dict[str, Callable[[TenantAuthority], Identity]] = {
    "a certificate in the name of another organisation": lambda own: forged(_named("Beta"), own),
    "an authority of its own below it": _under_a_signer,
    "a certificate that has ended": lambda own: forged(_named("Acme"), own, at=NOW - timedelta(days=1)),
}


@pytest.mark.parametrize("what", STOLEN)
def test_the_authority_of_a_tenant_vouches_for_nothing_beyond_its_limits(
    verified: Verified, plain: bytes, what: str
) -> None:
    """What a stolen key of one tenant is good for: signers of that tenant, and no other organisation's."""
    own = OURS.of_tenant(TENANT, "Acme")

    def sign(identity: Identity) -> bytes:
        async def pressed() -> bytes:
            press = Press(OURS)
            signed = await press.sign(plain, identity, Mark("C", "I agree", "Signed"), tenant=TENANT)
            await press.stop()
            return signed

        return asyncio.run(pressed())

    report = verified(sign(STOLEN[what](own)))

    assert verified(sign(forged(_named("Acme"), own))).verdict is Verdict.VALID
    assert (report.verdict, report.signatures[0].authority) == (Verdict.UNTRUSTED, Voucher.UNKNOWN)


def test_certificates_of_signers_end_within_hours_and_authorities_follow_from_the_key() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    first, second = (CertificateAuthority(key).of_tenant(TENANT, "acme") for _ in range(2))

    leaf = x509c.load_der_x509_certificate(first.issue(Holder("Ada", "ada@example.com"), at=NOW).certificate)

    assert first.certificate == second.certificate
    assert first.certificate != CertificateAuthority(key).of_tenant(TenantId(UUID(int=2)), "acme").certificate
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == timedelta(hours=1)


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
