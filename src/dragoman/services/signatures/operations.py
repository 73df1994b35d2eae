"""What can be asked of signatures directly; to prepare, send, ask after and void a request is a task each."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.signatures import models as m

READ, SIGN, MANAGE = "read:signatures", "sign:documents", "manage:signatures"
_SKILL = "contracts"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

LIST = Operation(
    "signature.list", "List requests for signatures", m.ListSignatures, Page[m.SignatureView], READ, part_of=_SKILL,
    description="Newest first; with `mine`, what waits for the caller's own signature.",
)  # fmt: skip
GET = Operation(
    "signature.get", "Show a request for signatures", m.SignatureRef, m.SignatureDetails, READ, part_of=_SKILL,
    description="With its history, and the signed evidence of every signature that was made here.",
    example={"signature_id": _ID},
)  # fmt: skip
SIGN_DOCUMENT = Operation(
    "signature.sign", "Sign a document as oneself", m.SignDocument, m.SignatureView, SIGN, Effect.WRITE, sensitive=True,
    part_of=_SKILL,
    description="For people whom a request of the embedded provider names, each with credentials of their own.",
    example={"signature_id": _ID, "document_sha256": _SHA256, "agree": True},
)  # fmt: skip
DECLINE = Operation(
    "signature.decline", "Refuse to sign a document", m.DeclineSignature, m.SignatureView, SIGN, Effect.WRITE,
    part_of=_SKILL, description="The request is over for all signers.",
    example={"signature_id": _ID, "reason": "the term is too long"},
)  # fmt: skip
VERIFY = Operation(
    "signature.verify", "Verify the signatures of a PDF", m.VerifySignatures, m.Verification, READ, part_of=_SKILL,
    description="Of a document that is kept here, or of any file: who signed, and whether anything was changed since.",
    example={"document_id": _ID},
)  # fmt: skip
CONFIGURE = Operation(
    "signature.configure", "Configure a signing provider", m.ConfigureProvider, m.ProviderView, MANAGE, Effect.WRITE,
    part_of=_SKILL,
    description="The credential is sealed and never shown again. Give the provider the webhook path of the answer.",
    example={
        "provider": "documenso", "base_url": "https://app.documenso.com/api/v2",
        "credential": {"access_token": "api_0123456789abcdef"}, "webhook_keys": ["a-secret-of-your-own"],
    },
)  # fmt: skip
LIST_PROVIDERS = Operation(
    "signature.providers", "List signing providers", m.ListProviders, m.ProviderList, READ, part_of=_SKILL,
    description="With the certificate that the embedded one vouches with.",
)  # fmt: skip
REMOVE_PROVIDER = Operation(
    "signature.unconfigure", "Forget a signing provider", m.ProviderRef, m.Forgotten, MANAGE, Effect.DESTRUCTIVE,
    part_of=_SKILL, description="With its credentials. Requests that are out there stay as they are.",
    example={"provider": "documenso"},
)  # fmt: skip
