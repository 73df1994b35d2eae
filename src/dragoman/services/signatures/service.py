"""Rules of requests for signatures: who sees them, who signs and in which order, and whether all have."""

import hashlib
from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller, PrincipalType, current_request
from dragoman.errors import NotFound
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.signatures import models as m
from dragoman.services.signatures.certificates import Holder
from dragoman.services.signatures.embedded import EmbeddedProvider
from dragoman.services.signatures.errors import DocumentMoved, NotAPerson, NotTheSigner, NotYourTurn, SignatureState
from dragoman.services.signatures.ports import Documents, Impression, People, Signed
from dragoman.services.signatures.press import Press
from dragoman.services.signatures.states import OUT, SignerState, Status
from dragoman.services.signatures.store import Record, SignatureStore, Step
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
        people: People,
        *,
        embedded: EmbeddedProvider,
        press: Press,
    ) -> None:
        self._store = store
        self._tracker = tracker
        self._documents = documents
        self._people = people
        self._embedded = embedded
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
            NotYourTurn: others come first.
            SignatureState: it is not out, was signed by the caller already, or is signed elsewhere.
            DocumentMoved: what the caller has read is not what would be signed.
        """
        row, place = await self._own(caller, given.signature_id, "signed")
        if given.document_sha256 not in (row["document_sha256"], row["signed_sha256"]):
            raise DocumentMoved(expected=given.document_sha256, current=row["document_sha256"])
        signer = row["signers"][place]
        first = [
            one["email"] for one in row["signers"] if _signs(one) and _pending(one) and one["order"] < signer["order"]
        ]
        if first:
            raise NotYourTurn(first)
        before = await self._documents.read(
            caller, str(row["document_id"]), row["signed_version"] or row["document_version"]
        )
        holder = Holder(signer["name"], caller.tenant_slug, signer["email"])
        made = await self._embedded.impress(before.content, holder, reason="I agree, and sign")
        kept = await self._tracker.keep(caller, row, made.pdf, step=f"sign-{place}")
        signers = _changed(row["signers"], place, SignerState.SIGNED, at=made.at.isoformat())
        done = not any(_signs(one) and _pending(one) for one in signers)
        step = Step(
            Status.COMPLETED if done else Status.SIGNED, caller.subject, "signer", signers=signers, repeats=True
        )
        row = await self._tracker.advance(caller, row, step)
        await self._tracker.attest(caller, row, kept, _facts(caller, signer, before.sha256, made))
        return m.SignatureView(**await self._tracker.get(caller, row["id"]))

    async def decline(self, caller: Caller, given: m.DeclineSignature) -> m.SignatureView:
        """Refuse to sign; the request is over for all.

        Raises:
            NotFound: there is no such request.
            NotAPerson, NotTheSigner: it is not for the caller to sign.
            SignatureState: it is not out, or was signed by the caller already.
        """
        row, place = await self._own(caller, given.signature_id, "declined")
        signers = _changed(row["signers"], place, SignerState.DECLINED, reason=given.reason)
        step = Step(Status.DECLINED, caller.subject, "signer", reason=given.reason, signers=signers)
        return m.SignatureView(**await self._tracker.advance(caller, row, step))

    async def verify(self, caller: Caller, given: m.VerifySignatures) -> m.Verification:
        """Say what the signatures of a PDF are worth; it need not be one of ours.

        Raises:
            NotFound: there is no such document or version.
            DocumentInvalid: it is no PDF.
        """
        content = given.content
        if content is None:
            content = (await self._documents.read(caller, given.document_id or "", given.version)).content
        return await verify(self._press, content, sha256=hashlib.sha256(content).hexdigest())

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
        found = await verify(self._press, held.content, sha256=held.sha256)
        ours = row["provider"] == m.Provider.EMBEDDED
        # What others have signed is theirs to vouch for; that nothing was touched since can be seen from here.
        if found.verdict is m.Verdict.TAMPERED or (ours and not found.valid):
            return Signed(complete=False, explanation=f"its signed version is {found.verdict}: {found.explanation}")
        names = tuple(one["name"] for one in row["signers"] if _signs(one))
        return Signed(
            complete=True,
            explanation=f"all have signed by {row['provider']}",
            signature_id=row["id"],
            version=held.version,
            sha256=held.sha256,
            signers=names,
        )

    async def list(self, caller: Caller, wanted: m.ListSignatures) -> Page[m.SignatureView]:
        """Newest first."""
        scope, status = scope_of(caller), wanted.status.value if wanted.status else None
        which = (wanted.limit + 1, wanted.cursor, status, wanted.document_id)
        if wanted.mine:
            email = await self._people.find_email(caller) or caller.subject.lower()
            rows = await self._store.list_waiting(scope, *which, email=email, subject=caller.subject)
        else:
            rows = await self._store.list(scope, *which)
        return page([m.SignatureView(**row) for row in rows], wanted.limit)

    async def _own(self, caller: Caller, signature_id: UUID, wanted: str) -> tuple[Record, int]:
        """A request that the caller is asked to sign, kept from others, and the caller's place in it."""
        if caller.type is not PrincipalType.USER or await self._people.came_by_key(caller):
            raise NotAPerson
        row = await self._store.lock(scope_of(caller), signature_id)
        if row is None:
            raise NotFound("signature", signature_id)
        email = await self._people.find_email(caller) or caller.subject.lower()
        place = next((at for at, one in enumerate(row["signers"]) if _signs(one) and _is(one, caller, email)), None)
        if place is None:
            raise NotTheSigner
        if Status(row["status"]) not in OUT or row["provider"] != m.Provider.EMBEDDED:
            raise SignatureState(row["status"], f"{wanted} here")
        if not _pending(row["signers"][place]):
            raise SignatureState(row["signers"][place]["state"], f"{wanted} again")
        return row, place


def _signs(signer: Record) -> bool:
    return signer["role"] == m.SignerRole.SIGNER


def _pending(signer: Record) -> bool:
    return signer["state"] == SignerState.PENDING


def _is(signer: Record, caller: Caller, email: str) -> bool:
    if signer["subject"] is not None:
        return signer["subject"] == caller.subject
    return signer["email"] == email


def _changed(signers: list[Record], place: int, state: SignerState, **known: Any) -> list[Record]:
    return [{**one, "state": state.value, **known} if at == place else one for at, one in enumerate(signers)]


def _facts(caller: Caller, signer: Record, before: str, made: Impression) -> dict[str, Any]:
    request = current_request()
    return {
        "kind": "signed",
        "signed_at": made.at.isoformat(),
        "signer": {
            "name": signer["name"],
            "email": signer["email"],
            "subject": caller.subject,
            "credential": caller.credential,
            "ip": request.ip if request is not None else "",
            "request_id": request.id if request is not None else "",
        },
        "input_sha256": before,
        "certificate_sha256": made.certificate_sha256,
    }


def _is_of(row: Record, sha256: str) -> bool:
    return sha256 in (row["document_sha256"], row["signed_sha256"])


def _why_not(rows: list[Record], sha256: str) -> str:
    row = next((one for one in rows if _is_of(one, sha256) or Status(one["status"]) in OUT), None)
    if row is None:
        return "others of its versions were to be signed, and not this one"
    waits = [one["email"] for one in row["signers"] if _signs(one) and _pending(one)]
    missing = f", and waits for {', '.join(waits)}" if waits else ""
    return f"the request {row['id']} is {row['status']}{missing}"
