"""Moves requests forward: by what a signer did, a provider said, or a task has done. What is no news is left alone."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.infra.db import Database, scope_of
from dragoman.services.signatures import models as m
from dragoman.services.signatures.evidence import Notary
from dragoman.services.signatures.ports import Documents, Impression, KeptVersion, News, SignerNews
from dragoman.services.signatures.providers import Providers
from dragoman.services.signatures.states import Status
from dragoman.services.signatures.store import Record, SignatureStore, Step

_CALLED_OFF = frozenset({Status.DECLINED, Status.VOIDED})


class Tracker:
    """Everything that changes a request after it was prepared goes through here."""

    def __init__(
        self, store: SignatureStore, db: Database, documents: Documents, providers: Providers, notary: Notary
    ) -> None:
        self._store = store
        self._db = db
        self._documents = documents
        self._providers = providers
        self._notary = notary

    async def get(self, caller: Caller, signature_id: UUID) -> Record:
        """One request.

        Raises:
            NotFound: there is none.
        """
        if (row := await self._store.find(scope_of(caller), signature_id)) is None:
            raise NotFound("signature", signature_id)
        return row

    async def advance(self, caller: Caller, row: Record, step: Step) -> Record:
        """Reach a status, if it is news. What was called off is a draft again, unless it is out elsewhere."""
        scope = scope_of(caller)
        async with self._db.unit(scope):
            row, changed = await self._store.advance(scope, row["id"], step)
            over = changed and step.status in _CALLED_OFF
            if over and not await self._store.others_out(scope, row["document_id"], row["id"]):
                await self._documents.take_back(caller, row["document_id"])
        return row

    async def apply(
        self, caller: Caller, row: Record, news: News, *, source: str, task_id: UUID | None = None
    ) -> Record:
        """Take over what a provider says."""
        step = Step(
            news.status,
            actor=row["provider"],
            source=source,
            reason=news.reason,
            task_id=task_id,
            signers=_merged(row["signers"], news.signers),
        )
        return await self.advance(caller, row, step)

    async def collect(self, caller: Caller, row: Record) -> Record:
        """Fetch what was signed elsewhere, once, and keep it as a version of the document.

        Raises:
            DragomanError: the provider cannot be reached, refuses, or gives something that is no PDF.
        """
        if row["status"] != Status.COMPLETED or row["signed_sha256"] is not None or row["provider_ref"] is None:
            return row
        provider = await self._providers.open(caller, m.Provider(row["provider"]))
        pdf = await provider.fetch(row["provider_ref"])
        async with self._db.unit(scope_of(caller)):
            locked = await self._store.lock(scope_of(caller), row["id"])
            if locked is None or locked["signed_sha256"] is not None:
                return locked or row
            kept = await self.keep(caller, locked, pdf, step="signed")
            facts = {"kind": "collected", "provider": row["provider"], "provider_ref": row["provider_ref"]}
            await self.attest(caller, locked, kept, facts)
        return await self.get(caller, row["id"])

    async def seal(self, caller: Caller, row: Record, sealed: Impression, facts: dict[str, Any]) -> None:
        """Keep what an organisation has sealed, with its record; both or neither."""
        async with self._db.unit(scope_of(caller)):
            kept = await self.keep(caller, row, sealed.pdf, step="seal")
            await self.attest(caller, row, kept, facts)

    async def keep(self, caller: Caller, row: Record, pdf: bytes, *, step: str) -> KeptVersion:
        """A signed PDF as the next version of the document."""
        task_id = row["sent_task"] or row["prepared_task"]
        kept = await self._documents.keep_signed(
            caller, row["document_id"], pdf, task_id=task_id, step=f"{step}:{row['id']}"
        )
        await self._store.note_signed(scope_of(caller), row["id"], kept.version, kept.sha256)
        return kept

    async def attest(self, caller: Caller, row: Record, kept: KeptVersion, facts: dict[str, Any]) -> None:
        """Record how a signed version came about; each record names the one before it."""
        scope = scope_of(caller)
        earlier = await self._store.evidence(scope, row["id"])
        attested = self._notary.attest(
            {
                "tenant": str(caller.tenant),
                "signature_id": str(row["id"]),
                "seq": len(earlier) + 1,
                "prev_sha256": earlier[-1]["sha256"] if earlier else None,
                "document": {
                    "id": str(row["document_id"]),
                    "version": row["document_version"],
                    "sha256": row["document_sha256"],
                },
                "signed": {"version": kept.version, "sha256": kept.sha256},
                "tasks": {"prepared": str(row["prepared_task"]), "sent": _text(row["sent_task"])},
                "governance": row["governance"] or {},
                **facts,
            }
        )
        await self._store.add_evidence(scope, row["id"], len(earlier) + 1, attested)


def _merged(signers: list[Record], news: Iterable[SignerNews]) -> list[Record]:
    """The signers with what a provider says of them; whom it does not know stays as they were."""
    told = {one.email: one for one in news}
    merged: list[Record] = []
    for signer in signers:
        heard = told.get(signer["email"])
        if heard is None or signer["state"] != "pending":
            merged.append(signer)
            continue
        at = heard.at.isoformat() if heard.at is not None else signer["at"]
        merged.append({**signer, "state": heard.state.value, "at": at, "reason": heard.reason})
    return merged


def _text(value: UUID | None) -> str | None:
    return str(value) if value is not None else None
