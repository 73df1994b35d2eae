"""One-time links: how somebody without an account is shown a document, and signs or declines it.

A link proves that its holder was given it, and no more. Its maker is told the code and could answer it, so the maker
stands in the signature's evidence, and the certificate says that a link is what the name rests on.
"""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import Forbidden, InvalidInput, NotFound, Unauthenticated
from dragoman.infra.auth.secrets import hash_secret, new_link
from dragoman.infra.db import scope_of
from dragoman.services.signatures import link_models as lm
from dragoman.services.signatures import models as m
from dragoman.services.signatures.errors import NotYourTurn, SendingNotApproved, SignatureState
from dragoman.services.signatures.identities import Proven
from dragoman.services.signatures.ports import Documents, SourceDocument
from dragoman.services.signatures.signing import Signing, check_read, is_pending, signs, waits_for
from dragoman.services.signatures.states import OUT, Status
from dragoman.services.signatures.store import Record, SignatureStore
from dragoman.services.signatures.store_links import LinkStore, NewLink

_SHOWS = "that the signer held the link; its maker, and whoever it was passed on to, could have answered it"


class LinkService:
    """Makes links for those who manage signatures, and answers those who hold one."""

    def __init__(
        self,
        links: LinkStore,
        signatures: SignatureStore,
        documents: Documents,
        signing: Signing,
        *,
        pepper: bytes,
        new_id: Callable[[], UUID],
    ) -> None:
        self._links = links
        self._signatures = signatures
        self._documents = documents
        self._signing = signing
        self._pepper = pepper
        self._new_id = new_id

    async def create(self, caller: Caller, request: lm.CreateLink) -> lm.CreatedLink:
        """Make a link for one signer of a request that was sent; an earlier one for the same signer ends.

        Raises:
            NotFound: there is no such request.
            InvalidInput: no signer with this address is asked by a link.
            SignatureState: the request is not out, or the signer has answered.
            SendingNotApproved: nobody approved that it is sent to signers by link.
        """
        scope = scope_of(caller)
        row = await self._signatures.lock(scope, request.signature_id)
        if row is None:
            raise NotFound("signature", request.signature_id)
        place = _find(row, request.email)
        if place is None:
            raise InvalidInput.of("email", "names no signer without an account; users sign with their own credentials")
        if Status(row["status"]) not in OUT:
            raise SignatureState(row["status"], "answered by link")
        signer = row["signers"][place]
        if not is_pending(signer):
            raise SignatureState(signer["state"], "answered again")
        if not (row["governance"] or {}).get("approvals"):
            raise SendingNotApproved
        code = new_link()
        link = await self._links.add(
            scope,
            NewLink(
                id=self._new_id(),
                signature_id=row["id"],
                email=signer["email"],
                code=hash_secret(code, self._pepper),
                made_by=caller.subject,
                made_with=caller.credential,
                expires_at=datetime.now(UTC) + timedelta(hours=request.hours),
            ),
        )
        view = m.LinkView.model_validate(link)
        signers = [
            {**one, "link": view.model_dump(mode="json")} if at == place else one
            for at, one in enumerate(row["signers"])
        ]
        await self._signatures.change_signers(scope, row["id"], signers)
        return lm.CreatedLink(
            id=view.id,
            signature_id=row["id"],
            name=signer["name"],
            email=signer["email"],
            secret=code,
            made_by=view.made_by,
            expires_at=view.expires_at,
        )

    async def show(self, caller: Caller, request: lm.ShowLink) -> lm.LinkedRequest:
        """Return what the holder of the link is asked to sign, as whom.

        Raises:
            Forbidden: the caller is anything but a link.
            Unauthenticated: the link cannot be answered any more.
        """
        del request
        row, place, link = await self._open(caller)
        signer, document = row["signers"][place], await self._read(caller, row)
        return lm.LinkedRequest(
            organisation=caller.tenant_slug,
            title=row["title"],
            message=row["message"],
            name=signer["name"],
            email=signer["email"],
            document_sha256=document.sha256,
            your_turn=not waits_for(row, place),
            expires_at=link["expires_at"],
            notice=lm.NOTICE.format(name=signer["name"], email=signer["email"]),
        )

    async def read(self, caller: Caller, request: lm.ReadLink) -> lm.LinkedDocument:
        """Return the document. Raises as `show` does."""
        del request
        row, _, _ = await self._open(caller)
        document = await self._read(caller, row)
        content = base64.b64encode(document.content).decode()
        return lm.LinkedDocument(
            sha256=document.sha256, title=row["title"], media_type=document.media_type, content=content
        )

    async def sign(self, caller: Caller, request: lm.SignByLink) -> lm.LinkAnswer:
        """Sign under the name and address that the link was made for, and use the link up.

        Raises:
            Forbidden, Unauthenticated: as for `show`.
            DocumentMoved: what was read is not what would be signed.
            NotYourTurn: others come first; who they are is not told.
        """
        row, place, link = await self._open(caller, lock=True)
        check_read(row, request.document_sha256)
        if waits_for(row, place):
            raise NotYourTurn([])
        await self._use_up(caller, link, "signed")
        signer = row["signers"][place]
        proven = Proven(signer["name"], signer["email"], m.VerifiedBy.LINK, _facts(link))
        row = await self._signing.sign(caller, row, place, proven)
        return lm.LinkAnswer.of("signed", row["status"], row["document_sha256"], row["signed_sha256"])

    async def decline(self, caller: Caller, request: lm.DeclineByLink) -> lm.LinkAnswer:
        """Refuse to sign, which ends the request for all, and use the link up. Raises as `show` does."""
        row, place, link = await self._open(caller, lock=True)
        await self._use_up(caller, link, "declined")
        row = await self._signing.decline(caller, row, place, request.reason)
        return lm.LinkAnswer.of("declined", row["status"], row["document_sha256"], row["signed_sha256"])

    async def _open(self, caller: Caller, *, lock: bool = False) -> tuple[Record, int, Record]:
        """Return the request that the caller's link is for, their place in it, and the link."""
        if caller.by_link is None:
            raise Forbidden("a link is answered with the link as the credential")
        scope = scope_of(caller)
        link = await self._links.find(scope, caller.by_link)
        if link is None:
            raise _closed()
        find = self._signatures.lock if lock else self._signatures.find
        row = await find(scope, link["signature_id"])
        place = _find(row, link["email"]) if row is not None else None
        if row is None or place is None or Status(row["status"]) not in OUT or not is_pending(row["signers"][place]):
            raise _closed()
        return row, place, link

    async def _use_up(self, caller: Caller, link: Record, answer: str) -> None:
        """Let nobody answer the link a second time; two who try at once wait for each other at the request."""
        if not await self._links.end(scope_of(caller), link["id"], answer):
            raise _closed()

    async def _read(self, caller: Caller, row: Record) -> SourceDocument:
        version = row["signed_version"] or row["document_version"]
        return await self._documents.read(caller, str(row["document_id"]), version)


def _find(row: Record, email: str) -> int | None:
    """Return the place of the signer with this address whom a link verifies."""
    places = (
        at
        for at, one in enumerate(row["signers"])
        if signs(one)
        and one["email"] == email
        and one["subject"] is None
        and one.get("verified_by") == m.VerifiedBy.LINK
    )
    return next(places, None) if row["provider"] == m.Provider.EMBEDDED else None


def _closed() -> Unauthenticated:
    return Unauthenticated("link answered or expired")


def _facts(link: Record) -> dict[str, Any]:
    return {
        "link_id": str(link["id"]),
        "made_by": link["made_by"],
        "made_with": link["made_with"],
        "made_at": link["made_at"].isoformat(),
        "expires_at": link["expires_at"].isoformat(),
        "shows": _SHOWS,
    }
