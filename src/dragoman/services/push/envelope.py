"""What goes with a notification: the receiver's own credentials, and a signature in the form of Standard Webhooks."""

import base64
import binascii
import hmac
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

_SECRET: Final = "whsec_"  # noqa: S105 - how such a secret begins, not one


@dataclass(frozen=True, slots=True)
class Envelope:
    """How one receiver wants to be spoken to.

    A token goes along as A2A has it, and signs. One that begins with `whsec_` signs and is never sent.
    """

    version: str
    scheme: str | None
    token: str | None = field(repr=False)
    credentials: str | None = field(repr=False)

    def headers(self, *, webhook_id: str, at_s: int, body: bytes) -> dict[str, str]:
        """Of one attempt: the id stays the same when it is repeated, the time does not."""
        headers = {
            "content-type": "application/json",
            "a2a-version": self.version,
            "webhook-id": webhook_id,
            "webhook-timestamp": str(at_s),
        }
        if self.scheme and self.credentials:
            headers["authorization"] = f"{self.scheme} {self.credentials}"
        if self.token:
            signed = f"{webhook_id}.{at_s}.".encode() + body
            signature = hmac.digest(signing_key(self.token), signed, "sha256")
            headers["webhook-signature"] = f"v1,{base64.b64encode(signature).decode()}"
            if not self.token.startswith(_SECRET):
                headers["x-a2a-notification-token"] = self.token
        return headers


def signing_key(token: str) -> bytes:
    """The bytes that sign: what stands in a `whsec_` secret, and any other token as it is.

    Raises:
        ValueError: it begins like a secret and holds none.
    """
    if not token.startswith(_SECRET):
        return token.encode()
    try:
        key = base64.b64decode(token.removeprefix(_SECRET) + "==", validate=False)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None
    if not key:
        raise ValueError("an empty secret")
    return key


def webhook_id(task_id: UUID, seq: int) -> str:
    """The same for the same event, however often it is sent."""
    return f"msg_{task_id.hex}_{seq}"
