"""Requests for signatures that envelopes act on: consent to one is bound to who signs which content."""

from typing import Any, Final, Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound
from dragoman.infra.db import scope_of
from dragoman.services.signatures.errors import DocumentMoved
from dragoman.services.signatures.store import Record, SignatureStore
from dragoman.services.tasks.actions.ports import Bound, Target

_TYPE: Final = "signature"
_SIGNER: Final = ("name", "email", "role", "order", "subject", "verified_by")


class ShowsVersions(Protocol):
    """Shows a version of a document to a decider."""

    async def show_version(self, caller: Caller, ref: str, number: int | None) -> dict[str, Any]:
        """Return the version with its text."""
        ...


class SignatureResources:
    """Checks a request for signatures, as the resource of an action or as a part of its input."""

    def __init__(self, store: SignatureStore, documents: ShowsVersions) -> None:
        self._store = store
        self._documents = documents

    def covers(self, target: Target) -> bool:
        """Check whether the target is about a request for signatures."""
        return target.resource.type == _TYPE or (
            target.action.startswith(f"{_TYPE}.") and target.input.get("signature_id") is not None
        )

    async def bind(self, caller: Caller, target: Target) -> Bound:
        """Return the document that is signed, by its version and its hash, and who signs it how.

        Raises:
            InvalidInput: the id is not the id of a request.
            NotFound: there is no such request.
            DocumentMoved: it is for another content than the resource names.
        """
        row, resource = await self._get(caller, target), target.resource
        facts = {"signature": _facts(row)}
        if resource.type != _TYPE:
            return Bound(facts=facts)
        if resource.sha256 is not None and resource.sha256 not in (row["document_sha256"], row["signed_sha256"]):
            raise DocumentMoved(expected=resource.sha256, current=row["document_sha256"])
        return Bound(str(row["document_version"]), row["document_sha256"], facts)

    async def show(self, caller: Caller, target: Target, *, since: str | None) -> dict[str, Any]:
        """Return who is asked to sign what, with the document where the resource is the request itself."""
        del since
        row = await self._get(caller, target)
        shown = {"signature": {**_facts(row), "status": row["status"], "message": row["message"]}}
        if target.resource.type != _TYPE:
            return shown
        return shown | await self._documents.show_version(caller, str(row["document_id"]), row["document_version"])

    async def _get(self, caller: Caller, target: Target) -> Record:
        ref = str(target.input.get("signature_id") or target.resource.id)
        try:
            signature_id = UUID(ref)
        except ValueError:
            raise InvalidInput.of("resource.id", "of a signature is its id") from None
        row = await self._store.find(scope_of(caller), signature_id)
        if row is None:
            raise NotFound("signature", ref)
        return row


def _facts(row: Record) -> dict[str, Any]:
    return {
        "signature_id": str(row["id"]),
        "document_id": str(row["document_id"]),
        "document_version": row["document_version"],
        "document_sha256": row["document_sha256"],
        "title": row["title"],
        "provider": row["provider"],
        "seal": row["seal"],
        "signers": [{name: one[name] for name in _SIGNER if one.get(name) is not None} for one in row["signers"]],
    }
