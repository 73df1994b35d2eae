"""One-time links for signers without an account: what is asked of them, and what they look like."""

from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import Field

from dragoman.operations import Input, Output
from dragoman.services.signatures.models import Agreement, Reason, Sha256, Status
from dragoman.text import Email

NOTICE = (
    "You are asked to sign as {name} <{email}>. Whoever holds this link can do so once: if you are somebody else, "
    "close this page. The signature will say that your name and address were verified by this link."
)


class CreateLink(Input):
    """Which signer of which request."""

    signature_id: UUID
    email: Email = Field(description="The address of a signer without an account, as the request names it.")
    hours: int = Field(72, ge=1, le=720, description="How long it can be answered.")


class CreatedLink(Output):
    """A link; its code is shown this once."""

    id: UUID
    signature_id: UUID
    name: str
    email: str
    secret: str | None = Field(description="The code. The link is /sign#CODE at the address of this server.")
    made_by: str
    expires_at: datetime

    def without_secrets(self) -> "CreatedLink":
        """The same without its code."""
        return self.model_copy(update={"secret": None})


class ShowLink(Input):
    """The link itself is the credential."""


class ReadLink(Input):
    """The link itself is the credential."""


class LinkedRequest(Output):
    """What the holder of a link is asked to sign, as whom."""

    organisation: str
    title: str
    message: str | None
    name: str
    email: str
    document_sha256: str = Field(description="Of the document as it would be signed now.")
    your_turn: bool = Field(description="False while others sign first.")
    expires_at: datetime
    notice: str


class LinkedDocument(Output):
    """The document as it would be signed now, in base64."""

    sha256: str
    title: str
    media_type: str
    content: str


class SignByLink(Agreement):
    """Sign; the link itself is the credential, and is used up."""

    document_sha256: Sha256 = Field(description="Of the document that was read: it is that one which is signed.")


class DeclineByLink(Input):
    """Refuse to sign; the link itself is the credential, and is used up."""

    reason: Reason


class LinkAnswer(Output):
    """What was answered."""

    answer: str = Field(description="signed or declined.")
    status: Status = Field(description="Of the request.")
    document_sha256: str = Field(description="Of the document that was signed, or not.")
    signed_sha256: str | None = Field(description="Of the file with the signature in it.")

    @classmethod
    def of(cls, answer: str, status: str, document_sha256: str, signed_sha256: str | None) -> Self:
        """Return the answer for a request in this status."""
        return cls(answer=answer, status=Status(status), document_sha256=document_sha256, signed_sha256=signed_sha256)
