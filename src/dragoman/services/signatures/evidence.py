"""A record of each signature that is made here: who, what, when, on whose approval, signed with the audit key."""

import hashlib
from typing import Any

import rfc8785
from cryptography.hazmat.primitives.asymmetric import ed25519

from dragoman.services.signatures.store import Attested

_VERSION = "1"


class Notary:
    """Writes records down so that nobody can change them unnoticed."""

    def __init__(self, key: ed25519.Ed25519PrivateKey) -> None:
        self._key = key

    def attest(self, facts: dict[str, Any]) -> Attested:
        """The facts in canonical form (RFC 8785), their hash, and the proof over their bytes (Ed25519)."""
        record = rfc8785.dumps({"evidence_version": _VERSION, **facts})
        return Attested(hashlib.sha256(record).hexdigest(), record, self._key.sign(record))
