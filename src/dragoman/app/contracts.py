"""Puts contract work together: documents, and the worker that drafts, compares and closes them."""

import os
from dataclasses import dataclass

from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.operations import Handlers
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
from dragoman.services.contracts.store import DocumentStore
from dragoman.services.contracts.typesetting import Typesetter
from dragoman.services.contracts.worker import DocumentsWorker
from dragoman.services.delegation.workers import Worker
from dragoman.services.signatures.certificates import CertificateAuthority
from dragoman.services.signatures.press import Press
from dragoman.services.signatures.verification import verify


@dataclass(frozen=True, slots=True)
class ContractsCore:
    """What others build on: the documents, who works on them, and who knows whether they are there."""

    documents: DocumentService
    workers: tuple[Worker, ...]
    resources: DocumentResources


class EmbeddedVerifier:
    """Signatures as the embedded authority of this installation sees them."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self._press = Press(authority)

    async def verify(self, pdf: bytes, *, sha256: str) -> SignatureVerdict:
        """Who signed it, and whether it holds."""
        found = await verify(self._press, pdf, sha256=sha256)
        signers = tuple(one.signer for one in found.signatures if one.signer is not None)
        return SignatureVerdict(valid=found.valid, explanation=found.explanation, signers=signers)


def build_contracts(
    settings: Settings, handlers: Handlers, db: Database, authority: CertificateAuthority
) -> ContractsCore:
    """Contract work, its operations bound."""
    documents = DocumentService(DocumentStore(db), max_bytes=settings.contracts.max_document_bytes, new_id=new_id)
    typesetter = Typesetter(at_once=os.cpu_count() or 1)
    worker = DocumentsWorker(documents, typesetter, Execution(documents, EmbeddedVerifier(authority)))
    checklists = ChecklistService(ChecklistStore(db), new_id=new_id)
    handlers.add(operations.ADD, documents.add)
    handlers.add(operations.LIST, documents.list)
    handlers.add(operations.SHOW, documents.show)
    handlers.add(operations.READ_CONTENT, documents.content)
    handlers.add(operations.LIST_TEMPLATES, list_templates)
    handlers.add(checklist_operations.CREATE, checklists.create)
    handlers.add(checklist_operations.SHOW, checklists.show)
    handlers.add(checklist_operations.VALIDATE, checklists.validate)
    return ContractsCore(documents, (worker, ChecklistsWorker(checklists)), DocumentResources(documents))
