"""What goes with a notification: the receiver's own credentials, and a signature in the form of Standard Webhooks."""

from dataclasses import dataclass, field
from uuid import UUID

from dragoman.infra.outbound.signing import SECRET_PREFIX, signed_headers


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
        tokens = [self.token] if self.token else []
        headers = signed_headers(tokens, webhook_id=webhook_id, at_s=at_s, body=body)
        headers |= {"content-type": "application/json", "a2a-version": self.version}
        if self.scheme and self.credentials:
            headers["authorization"] = f"{self.scheme} {self.credentials}"
        if self.token and not self.token.startswith(SECRET_PREFIX):
            headers["x-a2a-notification-token"] = self.token
        return headers


def webhook_id(task_id: UUID, seq: int) -> str:
    """The same for the same event, however often it is sent."""
    return f"msg_{task_id.hex}_{seq}"
