"""The embedded authorities: one of the installation, one of each tenant below it, and a certificate for each signature.

What the authorities' certificates say follows from the one key of the installation, and nothing has to be stored: every
process, and a restored backup, has the same. Every signature gets a key of its own, which is forgotten once it has
signed: a key that is nowhere cannot be stolen.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID, ObjectIdentifier

from dragoman.context import TenantId
from dragoman.services.signatures.models import VerifiedBy

# Every process must make the same certificate of the same key, so its times are fixed and its signature is, too.
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_END: Final = datetime(2066, 1, 1, tzinfo=UTC)
# From the making of the key to the signature: a document waits a minute at most.
LIFETIME: Final = timedelta(hours=1)
_LONGEST: Final = 64
_DOCUMENT_SIGNING: Final = ObjectIdentifier("1.3.6.1.5.5.7.3.36")
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_DERIVED: Final = b"dragoman document signing, authority of tenant "
_MOST_AUTHORITIES: Final = 1_000
# How the certificate itself says what its name and address rest on; readers of PDFs show it.
PROOFS: Final = {
    VerifiedBy.USER_RECORD: "Verified by user record",
    VerifiedBy.LINK: "Verified by one-time link",
}


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom a certificate names: a person and how they were verified, or with no address the organisation itself."""

    name: str
    email: str | None = None
    verified_by: VerifiedBy | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its key and its issuers, all in DER; the key is for one signature."""

    certificate: bytes
    key: bytes = field(repr=False)
    issuers: tuple[bytes, ...] = ()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate."""
        return hashlib.sha256(self.certificate).hexdigest()


class CertificateAuthority:
    """Vouches for the authorities of the tenants of one installation, and for nobody else."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._name = _name_of(key.public_key())
        self._certificate = self._own()
        self._find = lru_cache(_MOST_AUTHORITIES)(self._make)

    @property
    def certificate(self) -> bytes:
        """Its own certificate in DER: whoever trusts this trusts every signature."""
        return _der(self._certificate)

    @property
    def pem(self) -> str:
        """The same, as text."""
        return _pem(self._certificate)

    def of_tenant(self, tenant: TenantId, organisation: str) -> "TenantAuthority":
        """Return the authority of a tenant; it is always the same."""
        return self._find(tenant, organisation)

    def _make(self, tenant: TenantId, organisation: str) -> "TenantAuthority":
        secret = self._key.private_numbers().private_value.to_bytes(32, "big")
        # 128 bits more than the order has, so that every key is as likely as any other.
        drawn = HKDF(hashes.SHA256(), 48, None, _DERIVED + tenant.bytes).derive(secret)
        key = ec.derive_private_key(int.from_bytes(drawn, "big") % (_ORDER - 1) + 1, ec.SECP256R1())
        public = key.public_key()
        within = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation[:_LONGEST])]
        subject = [
            *within,
            x509.NameAttribute(NameOID.SERIAL_NUMBER, str(tenant)),
            x509.NameAttribute(NameOID.COMMON_NAME, f"Document signing {_digest(public).hex()[:12]}"),
        ]
        allowed = x509.NameConstraints([x509.DirectoryName(x509.Name(within))], None)
        builder = (
            _authority(x509.Name(subject), public, path_length=0, version=organisation.encode())
            .issuer_name(self._name)
            .add_extension(allowed, critical=True)
            .add_extension(x509.ExtendedKeyUsage([_DOCUMENT_SIGNING]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        certificate = builder.sign(self._key, hashes.SHA256(), ecdsa_deterministic=True)
        return TenantAuthority(key, certificate, within, root=self.certificate)

    def _own(self) -> x509.Certificate:
        # Before tenants had authorities it was limited to none below it, under the same name and with the same key.
        builder = _authority(self._name, self._key.public_key(), path_length=1, version=b"2").issuer_name(self._name)
        return builder.sign(self._key, hashes.SHA256(), ecdsa_deterministic=True)


class TenantAuthority:
    """Vouches for those who sign in one tenant."""

    def __init__(
        self,
        key: ec.EllipticCurvePrivateKey,
        certificate: x509.Certificate,
        within: list[x509.NameAttribute[str]],
        *,
        root: bytes,
    ) -> None:
        self._key = key
        self._certificate = certificate
        self._within = within
        self._root = root

    @property
    def certificate(self) -> bytes:
        """Its own certificate in DER, issued by the installation."""
        return _der(self._certificate)

    @property
    def pem(self) -> str:
        """The same, as text."""
        return _pem(self._certificate)

    def issue(self, holder: Holder, *, at: datetime) -> Identity:
        """Return a fresh key, and a certificate for it that is good for a signature made about now."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = list(self._within)
        if holder.verified_by is not None:
            names.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, PROOFS[holder.verified_by]))
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, holder.name[:_LONGEST]))
        begin = at.replace(microsecond=0)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(names))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_DOCUMENT_SIGNING]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        # An address beyond ASCII has no place in a certificate of this kind; the evidence has it all the same.
        if holder.email is not None and holder.email.isascii():
            alternative = x509.SubjectAlternativeName([x509.RFC822Name(holder.email)])
            builder = builder.add_extension(alternative, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        plain = key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Identity(_der(certificate), plain, (self.certificate, self._root))


def _authority(
    subject: x509.Name, public: ec.EllipticCurvePublicKey, *, path_length: int, version: bytes
) -> x509.CertificateBuilder:
    """Begin the certificate of an authority; its number follows from its key and its version."""
    number = hashlib.sha256(_digest(public) + version).digest()[:16]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public)
        .serial_number(int.from_bytes(number, "big") >> 1)
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _name_of(public: ec.EllipticCurvePublicKey) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"Dragoman document signing {_digest(public).hex()[:12]}")]
    )


def _digest(public: ec.EllipticCurvePublicKey) -> bytes:
    plain = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(plain).digest()


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=not signs_certificates,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
