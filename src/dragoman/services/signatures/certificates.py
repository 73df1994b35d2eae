"""The embedded certificate authority: what its certificate says follows from its key, and nothing has to be stored.

Every signature gets a key of its own, which is forgotten once it has signed: a key that is nowhere cannot be stolen.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

# Every process must make the same certificate of the same key, so its times are fixed and its signature is, too.
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_END: Final = datetime(2066, 1, 1, tzinfo=UTC)
_LONGEST: Final = 64
_DOCUMENT_SIGNING: Final = ObjectIdentifier("1.3.6.1.5.5.7.3.36")


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom a certificate names: a person, or with no address the organisation itself."""

    name: str
    organisation: str
    email: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its key, both in DER; the key is for one signature."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate."""
        return hashlib.sha256(self.certificate).hexdigest()


class CertificateAuthority:
    """Vouches for those who sign with the embedded provider of one installation."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._name = _name_of(key.public_key())
        self._certificate = self._own()

    @property
    def certificate(self) -> bytes:
        """Its own certificate in DER: whoever trusts this trusts every signature."""
        return self._certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pem(self) -> str:
        """The same, as text."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, holder: Holder, *, at: datetime) -> Identity:
        """A fresh key, and a certificate for it that is good from now on for as long as the authority's own."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.NameAttribute(NameOID.COMMON_NAME, holder.name[:_LONGEST]),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, holder.organisation[:_LONGEST]),
        ]
        usage = x509.ExtendedKeyUsage([_DOCUMENT_SIGNING])
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(names))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(at.replace(microsecond=0))
            .not_valid_after(_END)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(usage, critical=False)
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
        return Identity(certificate.public_bytes(serialization.Encoding.DER), plain)

    def _own(self) -> x509.Certificate:
        public = self._key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(int.from_bytes(_digest(public)[:16], "big") >> 1)
            .not_valid_before(_BEGIN)
            .not_valid_after(_END)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256(), ecdsa_deterministic=True)


def _name_of(public: ec.EllipticCurvePublicKey) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"Dragoman document signing {_digest(public).hex()[:12]}")]
    )


def _digest(public: ec.EllipticCurvePublicKey) -> bytes:
    plain = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(plain).digest()


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
