"""What is asked of signatures, and what they look like."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, field_validator, model_validator

from dragoman.operations import Input, ListInput, Output
from dragoman.services.contracts.models import Content, DocumentRef, VersionNumber
from dragoman.services.signatures.states import SignerState, Status
from dragoman.text import Email, Name, Subject, clean

MOST_SIGNERS = 20
Reason = Annotated[str, StringConstraints(min_length=1, max_length=1_000), AfterValidator(clean)]
Secret = Annotated[SecretStr, Field(min_length=8, max_length=10_000)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Provider(StrEnum):
    """Who gathers the signatures."""

    EMBEDDED = "embedded"
    DOCUSIGN = "docusign"
    DOCUMENSO = "documenso"


class RemoteProvider(StrEnum):
    """Those that stand elsewhere, and need credentials."""

    DOCUSIGN = "docusign"
    DOCUMENSO = "documenso"


class SignerRole(StrEnum):
    """Who signs, and who is only told."""

    SIGNER = "signer"
    CC = "cc"


class VerifiedBy(StrEnum):
    """How the name and address of a signer are verified."""

    USER_RECORD = "user_record"
    LINK = "link"
    PROVIDER = "provider"


class Signer(Input):
    """Somebody who is asked."""

    name: Name = Field(description="For a user of this tenant, the name in the user record is taken instead.")
    email: Email
    role: SignerRole = SignerRole.SIGNER
    order: int = Field(1, ge=1, le=100, description="Those of one number sign in any order, after those before.")
    subject: Subject | None = Field(
        None, description="For the embedded provider: which user they are; the record must have the same address."
    )


class PrepareSignature(Input):
    """Draft a request for signatures; nobody is told of it. The document is the envelope's resource."""

    signers: tuple[Signer, ...] = Field(default=(), max_length=MOST_SIGNERS)
    provider: Provider = Provider.EMBEDDED
    seal: bool = Field(default=False, description="Let the organisation seal the document itself when it is sent.")
    title: Name | None = Field(None, description="What the signers read first; the title of the document when unset.")
    message: Reason | None = Field(None, description="What they read next.")

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        signing = [one.email for one in self.signers if one.role is SignerRole.SIGNER]
        if not signing and not self.seal:
            raise ValueError("somebody must sign: give signers, or have it sealed")
        if self.seal and self.provider is not Provider.EMBEDDED:
            raise ValueError("only the embedded provider seals")
        if len({one.email for one in self.signers}) != len(self.signers):
            raise ValueError("each address may stand once")
        return self


class SignatureAction(Input):
    """Which request; the envelope's resource where it is one and none is named."""

    signature_id: UUID | None = None


class SendSignature(SignatureAction):
    """Ask the signers."""


class AskSignature(SignatureAction):
    """See how far it is."""


class VoidSignature(SignatureAction):
    """Call it off."""

    reason: Reason


class SignatureRef(Input):
    """Which request."""

    signature_id: UUID


class ListSignatures(ListInput):
    """Which requests."""

    status: Status | None = None
    document_id: UUID | None = Field(None, description="Only for this document.")
    mine: bool = Field(default=False, description="Only those that wait for the caller's own signature.")


class Agreement(Input):
    """What every signature needs."""

    agree: bool = Field(description="That this is meant as a signature; nothing else is taken.")

    @field_validator("agree")
    @classmethod
    def _meant(cls, given: bool) -> bool:  # noqa: FBT001 - pydantic calls it
        if not given:
            raise ValueError("must be true: whoever does not agree declines")
        return given


class SignDocument(Agreement):
    """Sign as oneself."""

    signature_id: UUID
    document_sha256: Sha256 = Field(description="Of the document that was read: it is that one which is signed.")


class DeclineSignature(Input):
    """Refuse to sign, for all."""

    signature_id: UUID
    reason: Reason


class VerifySignatures(Input):
    """Which PDF: one that is kept here, or any."""

    document_id: DocumentRef | None = Field(default=None, description="A document, by its id or its name.")
    version: VersionNumber | None = Field(default=None, description="Which version of it; the newest when unset.")
    content: Content | None = Field(default=None, description="Any PDF, in base64, instead.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.document_id is None) == (self.content is None):
            raise ValueError("give a document, or a content")
        if self.version is not None and self.document_id is None:
            raise ValueError("a version is of a document")
        return self


class Verdict(StrEnum):
    """In one word."""

    VALID = "valid"
    UNTRUSTED = "untrusted"
    MODIFIED = "modified"
    TAMPERED = "tampered"
    UNSIGNED = "unsigned"


class Voucher(StrEnum):
    """Whose authority issued the certificate of a signature."""

    THIS_TENANT = "this_tenant"
    OTHER_TENANT = "other_tenant"
    UNKNOWN = "unknown"


class FoundSignature(Output):
    """One signature in a PDF."""

    field: str
    intact: bool = Field(description="Whether the signed bytes are those that were signed, and by this certificate.")
    authority: Voucher = Field(
        Voucher.UNKNOWN,
        description="Who vouches for the signer: this tenant, another tenant of this installation, or somebody else.",
    )
    trusted: bool = Field(default=False, description="Whether the authority of this tenant issued the certificate.")
    verified_by: VerifiedBy | None = Field(
        None,
        description="What the signer's name and address rest on, as the certificate of a tenant says: a user record, "
        "or a one-time link, which its maker or anybody they gave it to could have answered.",
    )
    later_changes: str = Field("other", description="What was added after it: none, lta_updates, form_filling, other.")
    signer: str | None = None
    organisation: str | None = None
    email: str | None = None
    issuer: str | None = None
    certificate_sha256: str | None = None
    signed_at: str | None = Field(None, description="As the signer's clock had it.")
    reason: str | None = None
    format: str | None = None
    problem: str | None = None


class Verification(Output):
    """What was found. `valid` is true for the verdict of that name alone."""

    verdict: Verdict
    valid: bool
    explanation: str
    sha256: str
    pages: int | None
    signatures: list[FoundSignature]


class Credential(Input):
    """How a provider knows us: a token, or for DocuSign what one is asked for with (JWT grant)."""

    access_token: Secret | None = Field(None, description="A bearer token, or the API token of Documenso.")
    integration_key: str | None = Field(None, min_length=1, max_length=200)
    user_id: str | None = Field(None, min_length=1, max_length=200)
    private_key: Secret | None = Field(None, description="RSA, in PEM.")
    auth_url: str | None = Field(None, max_length=500, description="Such as https://account.docusign.com.")


class ConfigureProvider(Input):
    """Let this tenant sign by a provider; configuring it again replaces everything but its webhook address."""

    provider: RemoteProvider
    base_url: str = Field(max_length=500, examples=["https://eu.docusign.net/restapi"])
    account_id: str | None = Field(None, min_length=1, max_length=100, description="DocuSign needs one.")
    credential: Credential
    webhook_keys: list[Secret] = Field(
        default=[], max_length=10, description="What the provider signs its webhooks with; several while they change."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        given = self.credential
        grant = (given.integration_key, given.user_id, given.private_key, given.auth_url)
        if given.access_token is None and not all(grant):
            raise ValueError("the credential is a token, or integration_key, user_id, private_key and auth_url")
        if self.provider is RemoteProvider.DOCUMENSO and given.access_token is None:
            raise ValueError("Documenso is used with an API token")
        if self.provider is RemoteProvider.DOCUSIGN and self.account_id is None:
            raise ValueError("DocuSign needs an account_id")
        return self


class ListProviders(Input):
    """All of them."""


class ProviderRef(Input):
    """Which provider."""

    provider: RemoteProvider


class ProviderView(Output):
    """A provider that this tenant can sign by; what is secret is never shown."""

    provider: Provider
    id: UUID | None = None
    base_url: str | None = None
    account_id: str | None = None
    webhook_path: str | None = Field(default=None, description="Where the provider is to send its webhooks.")
    webhook_keys: int = Field(
        default=0, description="How many keys its webhooks may be signed with; without one none is taken."
    )
    authority: str | None = Field(
        default=None, description="The certificate of this installation's authority, in PEM, for readers to trust."
    )
    tenant_authority: str | None = Field(
        default=None, description="The certificate below it that vouches for the signers of this tenant alone."
    )
    updated_at: datetime | None = None


class ProviderList(Output):
    """What this tenant can sign by."""

    providers: list[ProviderView]


class LinkView(Output):
    """The one-time link of a signer without an account: who made it knows it, and could have answered it."""

    id: UUID
    made_by: str
    made_at: datetime
    expires_at: datetime


class SignerView(Output):
    """Somebody who is asked, and what they have done."""

    name: str
    email: str
    role: SignerRole
    order: int
    subject: str | None = Field(None, description="Which user of this tenant signs under this name.")
    verified_by: VerifiedBy | None = Field(
        None,
        description="How name and address are verified: by the user record, by a one-time link, or by the provider.",
    )
    verified_at: datetime | None = Field(None, description="When they were; unset until then.")
    link: LinkView | None = Field(None, description="The newest one-time link that was made for this signer.")
    state: SignerState
    at: datetime | None = None
    reason: str | None = None


class HistoryEntry(Output):
    """A status that was reached."""

    seq: int
    at: datetime
    status: Status
    actor: str
    source: str = Field(description="What told: task, signer, webhook or provider.")
    reason: str | None
    task_id: UUID | None


class EvidenceView(Output):
    """What was recorded of a signature, signed with the key of the audit trail (Ed25519 over the record's bytes)."""

    seq: int
    sha256: str
    record: str
    proof: str


class SignatureView(Output):
    """A request for signatures as it stands."""

    id: UUID
    title: str
    provider: Provider
    status: Status
    status_at: datetime
    document_id: UUID
    document_version: int
    document_sha256: str
    signed_version: int | None
    signed_sha256: str | None
    seal: bool
    signers: list[SignerView]
    created_by: str
    created_at: datetime


class SignatureDetails(SignatureView):
    """The same with all that is known."""

    message: str | None
    provider_ref: str | None
    prepared_task: UUID
    sent_task: UUID | None
    governance: dict[str, Any] | None
    history: list[HistoryEntry]
    evidence: list[EvidenceView]


class Forgotten(Output):
    """That it is gone."""

    provider: RemoteProvider
    removed: bool = True
