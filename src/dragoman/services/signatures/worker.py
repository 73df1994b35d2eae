"""The worker `signature`: prepares, sends, asks after and voids requests. A draft first, and nothing goes by itself."""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import DragomanError, InvalidInput
from dragoman.infra.db import scope_of
from dragoman.services.contracts.errors import DocumentInvalid, WrongContent
from dragoman.services.contracts.models import uri_of
from dragoman.services.contracts.resources import version_of
from dragoman.services.signatures import models as m
from dragoman.services.signatures.errors import DocumentMoved, ProviderRefused, SignatureState
from dragoman.services.signatures.identities import Identities
from dragoman.services.signatures.ports import Documents, Impression, Order, SigningProvider, SourceDocument
from dragoman.services.signatures.press import Press
from dragoman.services.signatures.providers import Providers
from dragoman.services.signatures.states import FINAL, OUT, Status
from dragoman.services.signatures.store import NewSignature, Record, SignatureStore, Step
from dragoman.services.signatures.tracker import Tracker
from dragoman.services.workers.protocol import Assignment, Capability, Evidence, EvidenceKind, Json, Performed

_PDF: Final = "application/pdf"
_WRITES: Final = ("write:documents",)
_CAPABILITIES: Final = (
    Capability(
        "signature.prepare", "Draft a request for signatures; nobody is told of it", m.PrepareSignature,
        permissions=_WRITES,
    ),
    Capability("signature.send", "Ask the signers of a draft", m.SendSignature, sensitive=True, permissions=_WRITES),
    Capability(
        "signature.status", "See how far a request for signatures is", m.AskSignature, permissions=("read:signatures",)
    ),
    Capability(
        "signature.void", "Call off a request for signatures", m.VoidSignature, sensitive=True, permissions=_WRITES
    ),
)  # fmt: skip


class SignatureWorker:
    """Does what must not be done twice: whatever a provider is told goes through the ledger of effects."""

    name = "signature"
    capabilities = _CAPABILITIES

    def __init__(
        self,
        store: SignatureStore,
        tracker: Tracker,
        providers: Providers,
        documents: Documents,
        *,
        identities: Identities,
        press: Press,
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._tracker = tracker
        self._providers = providers
        self._documents = documents
        self._identities = identities
        self._press = press
        self._new_id = new_id

    async def perform(self, assignment: Assignment) -> Performed:
        """Do what the envelope asks for.

        Raises:
            NotFound: there is no such document or request.
            NoSigningProvider: the tenant has not configured the provider.
            DocumentInvalid: the document is no PDF.
            WrongContent: the document is not the one that the envelope is for.
            DocumentMoved: the request is for another document than the envelope.
            SignatureState: the request is too far for this, or another task's.
            ProviderRefused: the provider said no.
            UpstreamUnavailable: the provider cannot be reached.
        """
        given = assignment.input
        if isinstance(given, m.PrepareSignature):
            return await self._prepare(assignment, given)
        if isinstance(given, m.VoidSignature):
            return await self._void(assignment, given)
        if isinstance(given, m.SendSignature):
            return await self._send(assignment, given)
        if isinstance(given, m.AskSignature):
            return await self._ask(assignment, given)
        raise InvalidInput.of("input", f"is not for {assignment.envelope.action}")

    async def _prepare(self, assignment: Assignment, given: m.PrepareSignature) -> Performed:
        caller, resource = assignment.caller, assignment.envelope.resource
        document = await self._documents.read(caller, resource.id, version_of(resource))
        _check_content(document, resource.sha256)
        provider = await self._providers.open(caller, given.provider)
        found = await self._press.inspect(document.content, tenant=caller.tenant)
        if found["form"]:
            raise DocumentInvalid(
                _PDF, "it has form fields, whose values can change: flatten the form, or print it to PDF"
            )
        row = await self._store.add(
            scope_of(caller),
            NewSignature(
                id=self._new_id(),
                document_id=document.id,
                document_version=document.version,
                document_sha256=document.sha256,
                title=given.title or document.title,
                message=given.message,
                provider=given.provider.value,
                seal=given.seal,
                signers=await self._identities.resolve(caller, given),
                task_id=assignment.task_id,
                created_by=caller.subject,
            ),
        )

        async def draft(key: str) -> Json:
            # Another reading of the PDF, which only a provider that places its fields asks for.
            embedded = given.provider is m.Provider.EMBEDDED
            layout = None if embedded else await self._press.lay_out(document.content, tenant=caller.tenant)
            order = _order(caller, row, document, layout)
            await self._store.name(scope_of(caller), row["id"], _external(key))
            return {"ref": await provider.draft(order, _external(key))}

        async def find(key: str) -> Json | None:
            ref = await provider.find_draft(_external(key))
            return {"ref": ref} if ref is not None else None

        wanted = {"signature_id": str(row["id"]), "document_sha256": document.sha256, "provider": given.provider.value}
        drafted = await assignment.effects.once("draft", wanted, draft, find=find, repeatable=provider.repeatable)
        await self._store.refer(scope_of(caller), row["id"], drafted["ref"])
        return _performed(
            await self._tracker.get(caller, row["id"]),
            _evidence(document.sha256, uri_of(document.id, document.version)),
        )

    async def _send(self, assignment: Assignment, given: m.SendSignature) -> Performed:
        caller, task_id = assignment.caller, assignment.task_id
        row = await self._get(assignment, given)
        if row["provider_ref"] is None:
            raise SignatureState(row["status"], "sent before it is prepared")
        resumed = row["sent_task"] == task_id and row["status"] != Status.CREATED
        if not resumed and not await self._store.claim(scope_of(caller), row["id"], task_id, assignment.governance):
            raise SignatureState(row["status"], "sent")
        try:
            sent = await self._send_out(assignment, row)
        except DragomanError as error:
            if not error.retryable:  # it was not sent, and another task may try
                await self._store.release(scope_of(caller), row["id"], task_id)
                if not await self._store.others_out(scope_of(caller), row["document_id"], row["id"]):
                    await self._documents.take_back(caller, row["document_id"])
            raise
        row = await self._tracker.advance(caller, row, Step(Status.SENT, caller.subject, "task", task_id=task_id))
        if sent["status"] == Status.COMPLETED:
            row = await self._tracker.advance(caller, row, Step(Status.COMPLETED, "seal", "task", task_id=task_id))
        return _performed(row, *map(_read_evidence, sent["evidence"]))

    async def _send_out(self, assignment: Assignment, row: Record) -> Json:
        caller = assignment.caller
        document = await self._documents.read(caller, str(row["document_id"]), row["document_version"])
        _check_content(document, row["document_sha256"])
        provider = await self._providers.open(caller, m.Provider(row["provider"]))
        await self._documents.send_out(caller, document.id)
        return await assignment.effects.once(
            "send",
            {"signature_id": str(row["id"]), "provider_ref": row["provider_ref"]},
            self._sending(assignment, row, provider, _order(caller, row, document)),
            find=_found_out(provider, row["provider_ref"]),
            repeatable=provider.repeatable,
        )

    def _sending(
        self, assignment: Assignment, row: Record, provider: SigningProvider, order: Order
    ) -> Callable[[str], Awaitable[Json]]:
        async def send(_key: str) -> Json:
            sealed = await self._sealed(assignment.caller, row)
            if sealed is None:
                sent = await provider.send(order, row["provider_ref"])
                if sent.sealed is None:
                    return {"status": sent.status.value, "evidence": []}
                await self._tracker.seal(assignment.caller, row, sent.sealed, _sealing(assignment, order, sent.sealed))
                sealed = await self._sealed(assignment.caller, row)
            signs = any(one.role is m.SignerRole.SIGNER for one in order.signers)
            return {"status": (Status.SENT if signs else Status.COMPLETED).value, "evidence": sealed or []}

        return send

    async def _sealed(self, caller: Caller, row: Record) -> list[list[str]] | None:
        """The evidence of a seal that was put on it before: sealed again, it would be sealed twice."""
        now = await self._tracker.get(caller, row["id"])
        kept = await self._store.evidence(scope_of(caller), row["id"])
        if now["signed_sha256"] is None or not kept:
            return None
        document = uri_of(now["document_id"], now["signed_version"])
        record = [EvidenceKind.SIGNATURE.value, kept[0]["sha256"], _evidence_uri(row, kept[0]["seq"])]
        return [[EvidenceKind.DOCUMENT.value, now["signed_sha256"], document], record]

    async def _ask(self, assignment: Assignment, given: m.AskSignature) -> Performed:
        caller = assignment.caller
        row = await self._get(assignment, given)
        provider = await self._providers.open(caller, m.Provider(row["provider"]))
        if Status(row["status"]) not in FINAL and row["provider_ref"] is not None:
            news = await provider.ask(row["provider_ref"])
            if news is not None:
                row = await self._tracker.apply(caller, row, news, source="provider", task_id=assignment.task_id)
        row = await self._tracker.collect(caller, row)
        kept = await self._store.evidence(scope_of(caller), row["id"])
        return _performed(
            row, *(_evidence(one["sha256"], _evidence_uri(row, one["seq"]), EvidenceKind.SIGNATURE) for one in kept)
        )

    async def _void(self, assignment: Assignment, given: m.VoidSignature) -> Performed:
        caller = assignment.caller
        row = await self._get(assignment, given)
        if Status(row["status"]) in FINAL:
            if row["status"] == Status.VOIDED:
                return _performed(row)
            raise SignatureState(row["status"], "voided")
        ref = row["provider_ref"]
        if ref is not None:
            provider = await self._providers.open(caller, m.Provider(row["provider"]))

            async def void(_key: str) -> Json:
                await provider.void(ref, given.reason)
                return {}

            wanted = {"signature_id": str(row["id"])}
            find = _found_voided(provider, ref, draft=row["status"] == Status.CREATED)
            await assignment.effects.once("void", wanted, void, find=find, repeatable=provider.repeatable)
        step = Step(Status.VOIDED, caller.subject, "task", reason=given.reason, task_id=assignment.task_id)
        return _performed(await self._tracker.advance(caller, row, step))

    async def _get(self, assignment: Assignment, given: m.SignatureAction) -> Record:
        """The request that an envelope is about, which is for the document that the envelope names, if it names one."""
        resource = assignment.envelope.resource
        row = await self._tracker.get(assignment.caller, given.signature_id or _id_of(resource.type, resource.id))
        if resource.sha256 is not None and resource.sha256 not in (row["document_sha256"], row["signed_sha256"]):
            raise DocumentMoved(expected=resource.sha256, current=row["document_sha256"])
        if resource.type == "document" and resource.id != str(row["document_id"]):
            named = await self._documents.read(assignment.caller, resource.id, None)
            if named.id != row["document_id"]:
                raise DocumentMoved(expected=resource.id, current=str(row["document_id"]))
        return row


def _sealing(assignment: Assignment, order: Order, sealed: Impression) -> Json:
    caller = assignment.caller
    return {
        "kind": "sealed",
        "signed_at": sealed.at.isoformat(),
        "signer": {"name": order.organisation, "subject": caller.subject, "credential": caller.credential},
        "input_sha256": order.document.sha256,
        "certificate_sha256": sealed.certificate_sha256,
        "governance": assignment.governance,
    }


def _found_out(provider: SigningProvider, ref: str) -> Callable[[str], Awaitable[Json | None]]:
    async def find(_key: str) -> Json | None:
        news = await provider.ask(ref)
        out = news is not None and (news.status in OUT or news.status is Status.COMPLETED)
        return {"status": Status.SENT.value, "evidence": []} if out else None

    return find


def _found_voided(provider: SigningProvider, ref: str, *, draft: bool) -> Callable[[str], Awaitable[Json | None]]:
    async def find(_key: str) -> Json | None:
        try:
            news = await provider.ask(ref)
        except ProviderRefused as refusal:
            # A draft is removed when it is voided, and this one was about to be.
            if draft and refusal.unknown:
                return {}
            raise
        return {} if news is not None and news.status is Status.VOIDED else None

    return find


def _external(key: str) -> str:
    """What a request is called at a provider, where names are short: the same key has the same name."""
    return f"dragoman-{hashlib.sha256(key.encode()).hexdigest()[:40]}"


def _id_of(resource_type: str, text: str) -> UUID:
    if resource_type != "signature":
        raise InvalidInput.of("input.signature_id", "is needed where the resource is not a signature")
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput.of("resource.id", "of a signature is its id") from None


def _check_content(document: SourceDocument, sha256: str | None) -> None:
    if sha256 is not None and sha256 != document.sha256:
        raise WrongContent(expected=sha256, current=document.sha256, version=document.version)
    if document.media_type != _PDF:
        raise DocumentInvalid(_PDF, f"it is {document.media_type}")


def _order(caller: Caller, row: Record, document: SourceDocument, layout: Json | None = None) -> Order:
    """Return what a provider is asked for; where its fields go matters to a draft alone."""
    known = set(m.Signer.model_fields)
    signers = tuple(
        m.Signer.model_validate({name: value for name, value in one.items() if name in known}) for one in row["signers"]
    )
    width, height = layout["last_page"] if layout is not None else (0, 0)
    return Order(
        tenant=caller.tenant,
        title=row["title"],
        message=row["message"],
        signers=signers,
        document=document,
        pages=int(layout["pages"]) if layout is not None else 1,
        last_page=(int(width), int(height)),
        seal=row["seal"],
        organisation=caller.tenant_slug,
    )


def _performed(row: Record, *evidence: Evidence) -> Performed:
    view = m.SignatureView(**row).model_dump(mode="json")
    return Performed({"signature_id": view.pop("id"), **view}, evidence)


def _evidence_uri(row: Record, seq: int) -> str:
    return f"dragoman://signatures/{row['id']}/evidence/{seq}"


def _evidence(sha256: str, uri: str, kind: EvidenceKind = EvidenceKind.DOCUMENT) -> Evidence:
    return Evidence(kind, sha256, uri, datetime.now(UTC))


def _read_evidence(kept: list[Any]) -> Evidence:
    kind, sha256, uri = kept
    return _evidence(sha256, uri, EvidenceKind(kind))
