"""Puts contract work together: documents, signatures, and the workers for both."""

import os
from dataclasses import dataclass
from uuid import UUID

from dragoman.app.signatures import SignatureCore, build_signatures
from dragoman.context import Caller
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.infra.outbound import Clients
from dragoman.operations import Handlers
from dragoman.services.audit.statements import Statements
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.checklists import operations as checklist_operations
from dragoman.services.checklists.service import ChecklistService
from dragoman.services.checklists.store import ChecklistStore
from dragoman.services.checklists.worker import ChecklistsWorker
from dragoman.services.contracts import operations
from dragoman.services.contracts.catalogue import list_templates
from dragoman.services.contracts.documents import DocumentService
from dragoman.services.contracts.executing import Execution
from dragoman.services.contracts.ports import SignatureVerdict
from dragoman.services.contracts.resources import DocumentResources
from dragoman.services.contracts.store import PROMISED, DocumentStore
from dragoman.services.contracts.typesetting import Typesetter
from dragoman.services.contracts.worker import DocumentsWorker
from dragoman.services.signatures.models import VerifySignatures
from dragoman.services.signatures.service import SignatureService
from dragoman.services.tasks.actions.ports import ResourceCheck
from dragoman.services.workers.protocol import Worker


@dataclass(frozen=True, slots=True)
class ContractsCore:
    """Signatures, who works on documents, and who knows whether they are there."""

    signatures: SignatureCore
    workers: tuple[Worker, ...]
    resources: tuple[ResourceCheck, ...]


class SignedDocuments:
    """Signatures as they were asked for here; of a document that nobody was asked to sign, those in the PDF itself."""

    def __init__(self, signatures: SignatureService) -> None:
        self._signatures = signatures

    async def verify(self, caller: Caller, document_id: UUID, pdf: bytes, *, sha256: str) -> SignatureVerdict:
        """Who signed it, whether it holds, and whether all have signed who were asked to."""
        signed = await self._signatures.check(caller, document_id, sha256)
        if signed.asked:
            return SignatureVerdict(valid=signed.complete, explanation=signed.explanation, signers=signed.signers)
        found = await self._signatures.verify(caller, VerifySignatures(content=pdf))
        signers = tuple(one.signer for one in found.signatures if one.signer is not None)
        return SignatureVerdict(valid=found.valid, explanation=found.explanation, signers=signers)


def build_documents(settings: Settings, handlers: Handlers, db: Database, trail: AuditTrail) -> DocumentService:
    """Documents, their operations bound."""
    store = DocumentStore(db, Statements(db, trail, PROMISED))
    documents = DocumentService(store, max_bytes=settings.contracts.max_document_bytes, new_id=new_id)
    handlers.add(operations.ADD, documents.add)
    handlers.add(operations.LIST, documents.list)
    handlers.add(operations.SHOW, documents.show)
    handlers.add(operations.READ_CONTENT, documents.content)
    return documents


def build_contracts(
    settings: Settings,
    handlers: Handlers,
    db: Database,
    core_db: Database,
    trail: AuditTrail,
    keyring: Keyring,
    outgoing: Clients,
) -> ContractsCore:
    """Contract work, its operations bound."""
    documents = build_documents(settings, handlers, db, trail)
    signatures = build_signatures(settings, handlers, (db, core_db), trail, documents, keyring, outgoing)
    typesetter = Typesetter(at_once=os.cpu_count() or 1)
    worker = DocumentsWorker(documents, typesetter, Execution(documents, SignedDocuments(signatures.service)))
    checklists = ChecklistService(ChecklistStore(db), new_id=new_id)
    handlers.add(operations.LIST_TEMPLATES, list_templates)
    handlers.add(checklist_operations.CREATE, checklists.create)
    handlers.add(checklist_operations.SHOW, checklists.show)
    handlers.add(checklist_operations.VALIDATE, checklists.validate)
    workers = (worker, signatures.worker, ChecklistsWorker(checklists))
    return ContractsCore(signatures, workers, (DocumentResources(documents), signatures.resources))
