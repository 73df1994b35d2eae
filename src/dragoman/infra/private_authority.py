"""A private certificate authority in a directory: its certificate and key, what it issued, and what it revoked.

For trying the agent gateway in a minute, and for small installations. Larger ones have an authority of their own.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dragoman.infra.private_files import write_private

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,62}")
_AUTHORITY_DAYS: Final = 3650
_LIST_DAYS: Final = 365
_SKEW: Final = timedelta(minutes=5)


class AuthorityError(Exception):
    """The authority cannot do that; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that was issued, and where it and its key are."""

    name: str
    certificate: Path
    key: Path
    fingerprint: str
    expires_at: datetime


class PrivateAuthority:
    """The authority of one directory."""

    def __init__(self, directory: Path, *, clock: Callable[[], datetime] | None = None) -> None:
        self.directory = directory
        self.certificate = directory / "ca.pem"
        self.revocations = directory / "crl.pem"
        self._key = directory / "ca.key"
        self._index = directory / "issued.json"
        self._clock = clock or (lambda: datetime.now(UTC).replace(microsecond=0))

    def create(self, name: str) -> None:
        """Make the authority, with an empty list of revocations.

        Raises:
            AuthorityError: there is one already.
        """
        if self._key.exists():
            raise AuthorityError(f"there is an authority in {self.directory} already")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        key, now = ec.generate_private_key(ec.SECP256R1()), self._clock()
        subject = _subject(name)
        certificate = (
            _builder(subject, subject, key.public_key(), now, _AUTHORITY_DAYS, signer=key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        write_private(self._key, _pem_of(key))
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._write_index([])
        self._write_list()

    def issue(self, name: str, *, days: int, server_names: tuple[str, ...] = ()) -> Issued:
        """Issue a client certificate with a key, or that of a server where there are names for it.

        Raises:
            AuthorityError: there is no authority, or the name is taken or not fit.
        """
        if not _NAME.fullmatch(name):
            raise AuthorityError("a name has letters, digits, blanks and . _ @ -, at most 63 of them")
        authority, signer = self._open()
        entries = self._entries()
        if any(entry["name"] == name and not entry["revoked_at"] for entry in entries):
            raise AuthorityError(f"{name!r} has a certificate already: revoke it first, or choose another name")
        key, now = ec.generate_private_key(ec.SECP256R1()), self._clock()
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server_names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(_subject(name), authority.subject, key.public_key(), now, days, signer=signer.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        )
        if server_names:
            names = x509.SubjectAlternativeName([_server_name(one) for one in server_names])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(signer, hashes.SHA256())
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", name)
        issued = Issued(
            name=name,
            certificate=self.directory / f"{stem}.pem",
            key=self.directory / f"{stem}.key",
            fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
            expires_at=certificate.not_valid_after_utc,
        )
        write_private(issued.key, _pem_of(key))
        issued.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        entry = {"name": name, "serial": str(certificate.serial_number), "fingerprint": issued.fingerprint,
                 "expires_at": issued.expires_at.isoformat(), "revoked_at": None}  # fmt: skip
        self._write_index([*entries, entry])
        return issued

    def revoke(self, name: str) -> None:
        """Revoke the certificate of a name; servers that read the list refuse it within a second.

        Raises:
            AuthorityError: there is none that is good.
        """
        entries = self._entries()
        good = [entry for entry in entries if entry["name"] == name and not entry["revoked_at"]]
        if not good:
            raise AuthorityError(f"{name!r} has no certificate that is good; see `ca list`")
        for entry in good:
            entry["revoked_at"] = self._clock().isoformat()
        self._write_index(entries)
        self._write_list()

    def list_issued(self) -> list[dict[str, Any]]:
        """Return every certificate that was issued, oldest first."""
        self._open()
        return self._entries()

    def _open(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        try:
            certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            key = serialization.load_pem_private_key(self._key.read_bytes(), None)
        except FileNotFoundError:
            raise AuthorityError(f"no authority in {self.directory}: make one with `ca init`") from None
        except (OSError, ValueError, TypeError) as error:
            raise AuthorityError(f"the authority in {self.directory} cannot be read: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise AuthorityError(f"the key in {self.directory} is not one that this authority made")
        return certificate, key

    def _entries(self) -> list[dict[str, Any]]:
        return orjson.loads(self._index.read_bytes()) if self._index.exists() else []

    def _write_index(self, entries: list[dict[str, Any]]) -> None:
        write_private(self._index, orjson.dumps(entries, option=orjson.OPT_INDENT_2))

    def _write_list(self) -> None:
        authority, signer = self._open()
        now = self._clock()
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(authority.subject)
            .last_update(now - _SKEW)
            .next_update(now + timedelta(days=_LIST_DAYS))
        )
        for entry in self._entries():
            if entry["revoked_at"]:
                revoked = (
                    x509.RevokedCertificateBuilder()
                    .serial_number(int(entry["serial"]))
                    .revocation_date(datetime.fromisoformat(entry["revoked_at"]))
                    .build()
                )
                builder = builder.add_revoked_certificate(revoked)
        written = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        # Whole or not at all: a server may read it at this moment.
        beside = self.revocations.with_suffix(".new")
        beside.write_bytes(written)
        beside.replace(self.revocations)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    days: int,
    *,
    signer: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _server_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
