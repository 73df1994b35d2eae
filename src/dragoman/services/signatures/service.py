"""Rules of requests for signatures: who sees them, who signs and in which order, and whether all have."""

import hashlib
from typing import Final
from uuid import UUID

import orjson

from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.signatures import models as m
from dragoman.services.signatures.errors import NotAPerson, SignatureState
from dragoman.services.signatures.identities import Identities
from dragoman.services.signatures.ports import Documents, Signed
from dragoman.services.signatures.press import Press
from dragoman.services.signatures.signing import Signing, check_read, check_turn, is_pending, signs
from dragoman.services.signatures.states import OUT, Status
from dragoman.services.signatures.store import Record, SignatureStore
from dragoman.services.signatures.tracker import Tracker
from dragoman.services.signatures.verification import verify

_MOST_REQUESTS: Final = 1_000


class SignatureService:
    """What people and programs ask directly; what is consequential is a task, and the worker's."""

    def __init__(
        self,
        store: SignatureStore,
        tracker: Tracker,
        documents: Documents,
        identities: Identities,
        *,
        signing: Signing,
        press: Press,
    ) -> None:
        self._store = store
        self._tracker = tracker
        self._documents = documents
        self._identities = identities
        self._signing = signing
        self._press = press

    async def get(self, caller: Caller, ref: m.SignatureRef) -> m.SignatureDetails:
        """One request with its history and its evidence.

        Raises:
            NotFound: there is none.
        """
        row = await self._tracker.get(caller, ref.signature_id)
        scope = scope_of(caller)
        history = await self._store.history(scope, ref.signature_id)
        evidence = await self._store.evidence(scope, ref.signature_id)
        return m.SignatureDetails(
            **row,
            history=[m.HistoryEntry(**entry) for entry in history],
            evidence=[
                m.EvidenceView(
                    seq=one["seq"], sha256=one["sha256"], record=one["record"].decode(), proof=one["proof"].hex()
                )
                for one in evidence
            ],
        )

    async def sign(self, caller: Caller, given: m.SignDocument) -> m.SignatureView:
        """Sign as oneself: the PDF gets one more signature, and the request moves on.

        Raises:
            NotFound: there is no such request.
            NotAPerson, NotTheSigner: it is not for the caller to sign.
            SignerNotVerified: nothing vouches for the caller's name and address.
            SignerChanged: the user record is another than the request was prepared with.
            NotYourTurn: others come first.
            SignatureState: it is not out, was signed by the caller already, or is signed elsewhere.
            DocumentMoved: what the caller has read is not what would be signed.
        """
        row, place = await self._own(caller, given.signature_id, "signed")
        check_read(row, given.document_sha256)
        check_turn(row, place)
        proven = await self._identities.prove(caller, row["signers"][place])
        return m.SignatureView(**await self._signing.sign(caller, row, place, proven))

    async def decline(self, caller: Caller, given: m.DeclineSignature) -> m.SignatureView:
        """Refuse to sign; the request is over for all.

        Raises:
            NotFound: there is no such request.
            NotAPerson, NotTheSigner: it is not for the caller to sign.
            SignatureState: it is not out, or was signed by the caller already.
        """
        row, place = await self._own(caller, given.signature_id, "declined")
        return m.SignatureView(**await self._signing.decline(caller, row, place, given.reason))

    async def verify(self, caller: Caller, given: m.VerifySignatures) -> m.Verification:
        """Say what the signatures of a PDF are worth; it need not be one of ours.

        Raises:
            NotFound: there is no such document or version.
            DocumentInvalid: it is no PDF.
        """
        content = given.content
        if content is None:
            content = (await self._documents.read(caller, given.document_id or "", given.version)).content
        return await self._verify(caller, content, hashlib.sha256(content).hexdigest())

    async def check(self, caller: Caller, document_id: UUID, sha256: str) -> Signed:
        """Whether the content of a document, or what came of it when it was sent, is signed by all, and validly.

        While a request is out, no version of the document counts, however many signatures it has.
        """
        rows = await self._store.list(scope_of(caller), _MOST_REQUESTS, None, None, document_id)
        if not rows:
            return Signed(complete=False, explanation="nobody was asked to sign it", asked=False)
        row = next((one for one in rows if one["status"] == Status.COMPLETED and _is_of(one, sha256)), None)
        if row is None:
            return Signed(complete=False, explanation=_why_not(rows, sha256))
        if row["signed_version"] is None:
            return Signed(complete=False, explanation="its signed version has not come from the provider yet")
        held = await self._documents.read(caller, str(document_id), row["signed_version"])
        found = await self._verify(caller, held.content, held.sha256)
        # What others have signed is theirs to vouch for; that nothing was touched since can be seen from here.
        if found.verdict in (m.Verdict.TAMPERED, m.Verdict.MODIFIED):
            return Signed(complete=False, explanation=f"its signed version is {found.verdict}: {found.explanation}")
        if row["provider"] == m.Provider.EMBEDDED:
            evidence = await self._store.evidence(scope_of(caller), row["id"])
            certificates = {orjson.loads(one["record"]).get("certificate_sha256") for one in evidence}
            vouched = {one.certificate_sha256 for one in found.signatures if one.trusted}
            if not certificates or not certificates <= vouched:
                return Signed(complete=False, explanation="its signed version lacks a signature that was made here")
        names = tuple(one["name"] for one in row["signers"] if signs(one))
        return Signed(
            complete=True,
            explanation=f"all have signed by {row['provider']}",
            signature_id=row["id"],
            version=held.version,
            sha256=held.sha256,
            signers=names,
        )

    async def _verify(self, caller: Caller, pdf: bytes, sha256: str) -> m.Verification:
        return await verify(self._press, pdf, sha256=sha256, tenant=caller.tenant, organisation=caller.tenant_slug)

    async def list(self, caller: Caller, wanted: m.ListSignatures) -> Page[m.SignatureView]:
        """Newest first."""
        scope, status = scope_of(caller), wanted.status.value if wanted.status else None
        which = (wanted.limit + 1, wanted.cursor, status, wanted.document_id)
        if wanted.mine:
            email = await self._identities.find_address(caller)
            rows = await self._store.list_waiting(scope, *which, email=email, subject=caller.subject)
        else:
            rows = await self._store.list(scope, *which)
        return page([m.SignatureView(**row) for row in rows], wanted.limit)

    async def _own(self, caller: Caller, signature_id: UUID, wanted: str) -> tuple[Record, int]:
        """A request that the caller is asked to sign, kept from others, and the caller's place in it."""
        if not caller.is_person:
            raise NotAPerson
        row = await self._store.lock(scope_of(caller), signature_id)
        if row is None:
            raise NotFound("signature", signature_id)
        place = await self._identities.find_place(caller, row)
        if Status(row["status"]) not in OUT or row["provider"] != m.Provider.EMBEDDED:
            raise SignatureState(row["status"], f"{wanted} here")
        if not is_pending(row["signers"][place]):
            raise SignatureState(row["signers"][place]["state"], f"{wanted} again")
        return row, place


def _is_of(row: Record, sha256: str) -> bool:
    return sha256 in (row["document_sha256"], row["signed_sha256"])


def _why_not(rows: list[Record], sha256: str) -> str:
    row = next((one for one in rows if _is_of(one, sha256) or Status(one["status"]) in OUT), None)
    if row is None:
        return "others of its versions were to be signed, and not this one"
    waits = [one["email"] for one in row["signers"] if signs(one) and is_pending(one)]
    missing = f", and waits for {', '.join(waits)}" if waits else ""
    return f"the request {row['id']} is {row['status']}{missing}"
