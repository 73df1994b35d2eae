"""Client certificates: read once, and held against the authority, the clock and the list of revocations every time.

With TLS of our own, OpenSSL has refused a wrong authority and an expired certificate at the handshake already. Behind a
proxy nothing has been checked that we can see, and a connection may be older than a revocation.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes

from dragoman.errors import InvalidInput, Unauthenticated, UpstreamUnavailable

_LOG = structlog.get_logger(__name__)
_MOST_KEPT: Final = 1_000
# So long a revocation may go unnoticed.
_LOOK_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ReadCertificate:
    """A certificate with what we look at."""

    certificate: x509.Certificate
    fingerprint: bytes

    @property
    def subject(self) -> str:
        """Whom it names."""
        return self.certificate.subject.rfc4514_string()[:500]

    @property
    def expires_at(self) -> datetime:
        """Until when it is good."""
        return self.certificate.not_valid_after_utc


def read_certificate(pem: str) -> ReadCertificate:
    """Read a certificate; of a chain the first.

    Raises:
        InvalidInput: it is none.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
        # A certificate whose names cannot be read names nobody.
        _ = certificate.subject.rfc4514_string(), certificate.not_valid_after_utc
    except ValueError:
        raise InvalidInput.of("certificate", "must be an X.509 certificate in PEM") from None
    return ReadCertificate(certificate, certificate.fingerprint(hashes.SHA256()))


class CertificateCheck:
    """Checks client certificates against one bundle of authorities and one revocation list."""

    def __init__(
        self, authorities: Path | None, revoked: Path | None, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._authorities = x509.load_pem_x509_certificates(authorities.read_bytes()) if authorities is not None else []
        self._list = _RevocationList(revoked, self._authorities) if revoked is not None else None
        self._clock = clock or (lambda: datetime.now(UTC))
        self._read = lru_cache(_MOST_KEPT)(self._read_issued)

    def check(self, pem: str) -> ReadCertificate:
        """Return the certificate if it is good now.

        Raises:
            Unauthenticated: it is no certificate of our authorities, is out of its time, or was revoked.
            UpstreamUnavailable: the list of revocations cannot be read.
        """
        shown = self._read(pem)
        now = self._clock()
        if not shown.certificate.not_valid_before_utc <= now <= shown.expires_at:
            raise Unauthenticated("client certificate expired, or not yet valid")
        if self._list is not None and self._list.has(shown.certificate.serial_number, now):
            raise Unauthenticated("client certificate revoked")
        return shown

    def _read_issued(self, pem: str) -> ReadCertificate:
        try:
            shown = read_certificate(pem)
        except InvalidInput:
            raise Unauthenticated("client certificate unreadable") from None
        if not any(_issued(shown.certificate, authority) for authority in self._authorities):
            raise Unauthenticated("client certificate of an unknown authority")
        return shown


class _RevocationList:
    """A certificate revocation list in a file, read again when the file changes."""

    def __init__(self, path: Path, authorities: list[x509.Certificate]) -> None:
        self._path = path
        self._authorities = authorities
        self._looked = -_LOOK_EVERY_S
        self._stamp: tuple[int, int] | None = None
        self._serials: frozenset[int] = frozenset()
        self._until: datetime | None = None

    def has(self, serial: int, now: datetime) -> bool:
        """Check whether a certificate was revoked.

        Raises:
            UpstreamUnavailable: the list cannot be read, is of another authority, or is out of date.
        """
        if time.monotonic() - self._looked >= _LOOK_EVERY_S:
            self._look()
            self._looked = time.monotonic()
        if self._until is not None and self._until < now:
            _LOG.error("gateway.revocations_out_of_date", path=str(self._path), next_update=str(self._until))
            raise UpstreamUnavailable("the certificate revocation list")
        return serial in self._serials

    def _look(self) -> None:
        try:
            stat = self._path.stat()
            stamp = stat.st_mtime_ns, stat.st_size
            if stamp == self._stamp:
                return
            found = x509.load_pem_x509_crl(self._path.read_bytes())
        except (OSError, ValueError) as error:
            _LOG.error("gateway.revocations_unreadable", path=str(self._path), reason=str(error))
            raise UpstreamUnavailable("the certificate revocation list") from error
        # The type of a public key that can sign is decided by the authority, whose certificate is read.
        if not any(found.is_signature_valid(one.public_key()) for one in self._authorities):  # pyright: ignore[reportArgumentType]
            _LOG.error("gateway.revocations_foreign", path=str(self._path))
            raise UpstreamUnavailable("the certificate revocation list")
        self._stamp, self._until = stamp, found.next_update_utc
        self._serials = frozenset(revoked.serial_number for revoked in found)


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
