"""Signed cards: who holds the key of this installation wrote them, and nobody has changed them since."""

import base64
import hashlib
from functools import lru_cache
from typing import Any, Final, cast

import orjson
import rfc8785
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from jwt.algorithms import ECAlgorithm

Json = dict[str, Any]
KEYS_PATH: Final = "/.well-known/jwks.json"
_ALGORITHM: Final = "ES256"
_HALF_BYTES: Final = 32
_GREATEST: Final = 2**53 - 1


class CardSigner:
    """JWS (RFC 7515) over canonical JSON (RFC 8785). The same card has the same signature in every process."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._key_id = f"card-{hashlib.sha256(public).hexdigest()[:16]}"

    def sign(self, card: Json, base_url: str) -> Json:
        """The card with its signature, which says where the public key is."""
        header = {"alg": _ALGORITHM, "jku": f"{base_url}{KEYS_PATH}", "kid": self._key_id, "typ": "JOSE"}
        protected = _encode(orjson.dumps(header))
        signed = f"{protected}.{_encode(_canonical(card))}"
        # Deterministic (RFC 6979): a signature that changed at every start would change the ETag.
        found = self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
        halves = b"".join(half.to_bytes(_HALF_BYTES, "big") for half in decode_dss_signature(found))
        return card | {"signatures": [{"protected": protected, "signature": _encode(halves)}]}

    def public_key(self) -> Json:
        """As a key set has it (RFC 7517)."""
        key = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {**key, "kid": self._key_id, "alg": _ALGORITHM, "use": "sig"}


def _canonical(card: Json) -> bytes:
    """What is signed: what says nothing is left out, as verifiers leave it out when they read protobuf's JSON."""
    extensions = [
        {name: value for name, value in extension.items() if (name, value) != ("required", False)}
        for extension in card["capabilities"]["extensions"]
    ]
    told = card | {"capabilities": card["capabilities"] | {"extensions": extensions}}
    members = [(name, _canonical_member(orjson.dumps(told[name]))) for name in sorted(told)]
    return b"{%s}" % b",".join(b"%s:%s" % (orjson.dumps(name), value) for name, value in members if value is not None)


@lru_cache(maxsize=32)
def _canonical_member(value: bytes) -> bytes | None:
    """Kept, because the large ones are the same for every address, and anybody may ask under any address."""
    told = _without_empty(orjson.loads(value))
    return None if told is None else rfc8785.dumps(told)


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_empty(one) for name, one in cast("Json", value).items()}
        return {name: one for name, one in kept.items() if one is not None} or None
    if isinstance(value, list):
        return [one for one in map(_without_empty, cast("list[Any]", value)) if one is not None] or None
    if type(value) is int and abs(value) > _GREATEST:
        return float(value)  # as protobuf keeps every number of an extension
    return None if value == "" else value


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
