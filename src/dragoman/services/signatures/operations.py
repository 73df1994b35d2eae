"""What can be asked of signatures directly; to prepare, send, ask after and void a request is a task each."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.signatures import link_models as lm
from dragoman.services.signatures import models as m

READ, SIGN, MANAGE, ANSWER = "read:signatures", "sign:documents", "manage:signatures", "answer:link"
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
CREATE_LINK = Operation(
    "link.create", "Make a one-time link for a signer without an account", lm.CreateLink, lm.CreatedLink, MANAGE,
    Effect.WRITE, sensitive=True, part_of=_SKILL,
    description="For a request that was sent. The answer holds the code, shown once: pass the link to the signer and "
    "to nobody else, since whoever holds it can sign once under that name. You stand in the evidence as its maker. "
    "A new link ends the earlier one of the same signer.",
    example={"signature_id": _ID, "email": "jane@example.org", "hours": 72},
)  # fmt: skip
SHOW_LINK = Operation(
    "link.show", "Show what a one-time link asks for", lm.ShowLink, lm.LinkedRequest, ANSWER, part_of=_SKILL,
    description="The credential is the link. What is to be signed, under which name and address.",
)  # fmt: skip
READ_LINK = Operation(
    "link.read", "Read the document of a one-time link", lm.ReadLink, lm.LinkedDocument, ANSWER, part_of=_SKILL,
    description="The credential is the link. The PDF in base64, and its hash, which signing asks for.",
)  # fmt: skip
SIGN_BY_LINK = Operation(
    "link.sign", "Sign by a one-time link", lm.SignByLink, lm.LinkAnswer, ANSWER, Effect.WRITE, sensitive=True,
    part_of=_SKILL, description="The credential is the link, which is used up.",
    example={"document_sha256": _SHA256, "agree": True},
)  # fmt: skip
DECLINE_BY_LINK = Operation(
    "link.decline", "Refuse to sign by a one-time link", lm.DeclineByLink, lm.LinkAnswer, ANSWER, Effect.WRITE,
    part_of=_SKILL, description="The credential is the link, which is used up. The request is over for all signers.",
    example={"reason": "the term is too long"},
)  # fmt: skip
