"""The keys that never enter the database: token issuer, agent card, pepper, audit signature and MAC, vault, signing."""

import hashlib
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_RANDOM_BYTES = 32
_OwnKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class KeyringError(Exception):
    """A key file cannot be read or written; the message says which."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """Made on first use and then kept: losing them logs everybody out and ends the audit chain's authorship."""

    issuer: ec.EllipticCurvePrivateKey
    card: ec.EllipticCurvePrivateKey
    pepper: bytes
    audit: ed25519.Ed25519PrivateKey
    audit_mac: bytes
    vault: bytes
    signing: ec.EllipticCurvePrivateKey

    @classmethod
    def open(cls, directory: Path) -> "Keyring":
        """Read the keys, making those that are missing; safe when several processes do it at once.

        Raises:
            KeyringError: the directory or a file in it is not usable.
        """
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise KeyringError(f"cannot use the keys in {directory}: {error.strerror}") from error
        issuer = _load_p256(directory / "issuer.pem")
        card = _load_p256(directory / "card.pem")
        audit = _load_private(directory / "audit.pem", ed25519.Ed25519PrivateKey.generate)
        if not isinstance(audit, ed25519.Ed25519PrivateKey):
            raise KeyringError(f"{directory / 'audit.pem'} must be an Ed25519 key")
        return cls(
            issuer=issuer,
            card=card,
            pepper=_load_random(directory / "pepper"),
            audit=audit,
            audit_mac=_load_random(directory / "audit.mac"),
            vault=_load_random(directory / "vault"),
            signing=_load_p256(directory / "signing.pem"),
        )

    def fingerprints(self) -> dict[str, str]:
        """What identifies each key without giving it away; the database keeps these to notice a mix-up."""
        return {
            "issuer": _short(_public(self.issuer.public_key())),
            "card": _short(_public(self.card.public_key())),
            "pepper": _short(b"pepper" + self.pepper),
            "audit": _short(_public(self.audit.public_key())),
            "audit-mac": _short(b"audit-mac" + self.audit_mac),
            "vault": _short(b"vault" + self.vault),
            "signing": _short(_public(self.signing.public_key())),
        }


def _load_private(path: Path, make: Callable[[], _OwnKey]) -> PrivateKeyTypes:
    text = _load(path, lambda: _pem(make()))
    try:
        return serialization.load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyringError(f"{path} is not a PEM private key without a password: {error}") from error


def _load_p256(path: Path) -> ec.EllipticCurvePrivateKey:
    key = _load_private(path, lambda: ec.generate_private_key(ec.SECP256R1()))
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise KeyringError(f"{path} must be a P-256 key")
    return key


def _load_random(path: Path) -> bytes:
    found = _load(path, lambda: secrets.token_bytes(_RANDOM_BYTES))
    if len(found) < _RANDOM_BYTES:
        raise KeyringError(f"{path} holds {len(found)} bytes; a key has at least {_RANDOM_BYTES}")
    return found


def _load(path: Path, make: Callable[[], bytes]) -> bytes:
    try:
        return _read_or_make(path, make)
    except OSError as error:
        raise KeyringError(f"cannot use the key {path}: {error.strerror}") from error


def _read_or_make(path: Path, make: Callable[[], bytes]) -> bytes:
    if not path.exists():
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        # A link fails where a rename would overwrite: whoever comes first wins, and all read the same key.
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        fresh.unlink()
    return path.read_bytes()


def _pem(key: _OwnKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public(key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _short(material: bytes) -> str:
    return hashlib.sha256(material).hexdigest()[:32]
