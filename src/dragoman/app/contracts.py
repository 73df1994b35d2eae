"""Puts contract work together: documents, and the workers that draft and compare them."""

from dataclasses import dataclass

from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.operations import Handlers
from dragoman.services.contracts import operations
from dragoman.services.contracts.documents import DocumentService
from dragoman.services.contracts.store import DocumentStore


@dataclass(frozen=True, slots=True)
class ContractsCore:
    """What others build on."""

    documents: DocumentService


def build_contracts(settings: Settings, handlers: Handlers, db: Database) -> ContractsCore:
    """Contract work, its operations bound."""
    documents = DocumentService(DocumentStore(db), max_bytes=settings.contracts.max_document_bytes, new_id=new_id)
    handlers.add(operations.ADD, documents.add)
    handlers.add(operations.LIST, documents.list)
    handlers.add(operations.SHOW, documents.show)
    handlers.add(operations.READ_CONTENT, documents.content)
    return ContractsCore(documents)
