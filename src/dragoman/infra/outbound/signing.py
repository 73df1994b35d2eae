"""Signatures of Standard Webhooks: the receiver sees who sent a message, and that nobody changed it."""

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable
from typing import Final

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - how such a secret begins, not one
_SECRET_BYTES: Final = 32


def new_signing_secret() -> str:
    """Return a new secret, as both sides keep it."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signing_key(token: str) -> bytes:
    """The bytes that sign: what stands in a `whsec_` secret, and any other token as it is.

    Raises:
        ValueError: it begins like a secret and holds none.
    """
    if not token.startswith(SECRET_PREFIX):
        return token.encode()
    try:
        key = base64.b64decode(token.removeprefix(SECRET_PREFIX) + "==", validate=False)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None
    if not key:
        raise ValueError("an empty secret")
    return key


def signed_headers(tokens: Iterable[str], *, webhook_id: str, at_s: int, body: bytes) -> dict[str, str]:
    """Return the headers of one attempt, with a signature by each of the tokens.

    The id stays the same when a message is sent again, the time does not.
    """
    headers = {"webhook-id": webhook_id, "webhook-timestamp": str(at_s)}
    message = f"{webhook_id}.{at_s}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(signing_key(token), message, "sha256")).decode() for token in tokens]
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{signature}" for signature in signatures)
    return headers
