"""Secrets that must be read again: kept sealed, each for one place, so that a row cannot be put in another's stead."""

import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES: Final = 12


class Vault:
    """AES-256-GCM with the key `vault` of the keyring."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key[:32])

    def seal(self, plain: bytes, *, place: str) -> bytes:
        """What to store; it opens only for the same place."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, place.encode())

    def open(self, sealed: bytes, *, place: str) -> bytes:
        """What was sealed.

        Raises:
            ValueError: it was sealed for another place or with another key, or it was changed.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place.encode())
        except (InvalidTag, ValueError):
            raise ValueError(f"the secret of {place} cannot be opened") from None
