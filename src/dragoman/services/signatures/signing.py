"""The act of signing, whoever proved to be the signer: one more signature in the PDF, and its evidence."""

from typing import Any

from dragoman.context import Caller, current_request
from dragoman.services.signatures import models as m
from dragoman.services.signatures.certificates import Holder
from dragoman.services.signatures.embedded import EmbeddedProvider
from dragoman.services.signatures.errors import DocumentMoved, NotYourTurn
from dragoman.services.signatures.identities import Proven
from dragoman.services.signatures.ports import Documents, Impression
from dragoman.services.signatures.states import SignerState, Status
from dragoman.services.signatures.store import Record, Step
from dragoman.services.signatures.tracker import Tracker


class Signing:
    """Signs and declines for a signer of a request that is locked, and who is known to be its caller."""

    def __init__(self, tracker: Tracker, documents: Documents, embedded: EmbeddedProvider) -> None:
        self._tracker = tracker
        self._documents = documents
        self._embedded = embedded

    async def sign(self, caller: Caller, row: Record, place: int, proven: Proven) -> Record:
        """Put the signature on the newest version, and move the request on.

        Raises:
            DocumentInvalid: the PDF cannot be signed.
        """
        before = await self._documents.read(
            caller, str(row["document_id"]), row["signed_version"] or row["document_version"]
        )
        made = await self._embedded.impress(
            before.content,
            Holder(proven.name, proven.email, proven.by),
            reason="I agree, and sign",
            tenant=caller.tenant,
            organisation=caller.tenant_slug,
        )
        kept = await self._tracker.keep(caller, row, made.pdf, step=f"sign-{place}")
        at = made.at.isoformat()
        verified = {"verified_by": proven.by.value, "verified_at": row["signers"][place].get("verified_at") or at}
        signers = _changed(row["signers"], place, SignerState.SIGNED, at=at, **verified)
        done = not any(signs(one) and is_pending(one) for one in signers)
        step = Step(
            Status.COMPLETED if done else Status.SIGNED, caller.subject, "signer", signers=signers, repeats=True
        )
        row = await self._tracker.advance(caller, row, step)
        await self._tracker.attest(caller, row, kept, _facts(caller, proven, before.sha256, made))
        return await self._tracker.get(caller, row["id"])

    async def decline(self, caller: Caller, row: Record, place: int, reason: str) -> Record:
        """End the request for all."""
        signers = _changed(row["signers"], place, SignerState.DECLINED, reason=reason)
        step = Step(Status.DECLINED, caller.subject, "signer", reason=reason, signers=signers)
        return await self._tracker.advance(caller, row, step)


def check_turn(row: Record, place: int) -> None:
    """Refuse a signer before whom others sign.

    Raises:
        NotYourTurn: they have not yet.
    """
    if first := waits_for(row, place):
        raise NotYourTurn(first)


def waits_for(row: Record, place: int) -> list[str]:
    """Return the addresses of those who sign before a signer and have not yet."""
    order = row["signers"][place]["order"]
    return [one["email"] for one in row["signers"] if signs(one) and is_pending(one) and one["order"] < order]


def check_read(row: Record, document_sha256: str) -> None:
    """Refuse a signer who has read something else.

    Raises:
        DocumentMoved: it is neither the document nor what others have signed already.
    """
    if document_sha256 not in (row["document_sha256"], row["signed_sha256"]):
        raise DocumentMoved(expected=document_sha256, current=row["document_sha256"])


def signs(signer: Record) -> bool:
    """Check that somebody is to sign, not only told."""
    return signer["role"] == m.SignerRole.SIGNER


def is_pending(signer: Record) -> bool:
    """Check that a signer has not answered."""
    return signer["state"] == SignerState.PENDING


def _changed(signers: list[Record], place: int, state: SignerState, **known: Any) -> list[Record]:
    return [{**one, "state": state.value, **known} if at == place else one for at, one in enumerate(signers)]


def _facts(caller: Caller, proven: Proven, before: str, made: Impression) -> dict[str, Any]:
    request = current_request()
    return {
        "kind": "signed",
        "signed_at": made.at.isoformat(),
        "signer": {
            "name": proven.name,
            "email": proven.email,
            "verified": {"by": proven.by.value, **proven.facts},
            "subject": caller.subject,
            "credential": caller.credential,
            "ip": request.ip if request is not None else "",
            "request_id": request.id if request is not None else "",
        },
        "input_sha256": before,
        "certificate_sha256": made.certificate_sha256,
    }
