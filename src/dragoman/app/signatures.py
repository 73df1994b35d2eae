"""Puts signatures together: the embedded provider with its authority, the others, the worker, and their webhooks."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from dragoman.context import Caller
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.vault import Vault
from dragoman.infra.config import Settings
from dragoman.infra.db import Database, scope_of
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Clients, TenantClients, Upstream
from dragoman.operations import Handlers
from dragoman.services.audit.statements import Statements
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.contracts.documents import DocumentService, Made
from dragoman.services.contracts.errors import DocumentClosed, WrongContent
from dragoman.services.contracts.models import DocumentState, MediaType, VersionKind
from dragoman.services.contracts.resources import DocumentResources
from dragoman.services.inbox.ports import Delivery, Receipt
from dragoman.services.signatures import operations
from dragoman.services.signatures.certificates import CertificateAuthority
from dragoman.services.signatures.embedded import EmbeddedProvider
from dragoman.services.signatures.evidence import Notary
from dragoman.services.signatures.identities import Identities
from dragoman.services.signatures.links import LinkService
from dragoman.services.signatures.models import RemoteProvider
from dragoman.services.signatures.ports import KeptVersion, Person, SourceDocument
from dragoman.services.signatures.press import Press
from dragoman.services.signatures.providers import Providers
from dragoman.services.signatures.resources import SignatureResources
from dragoman.services.signatures.service import SignatureService
from dragoman.services.signatures.signing import Signing
from dragoman.services.signatures.store import PROMISED, Record, SignatureStore
from dragoman.services.signatures.store_links import LinkStore
from dragoman.services.signatures.store_providers import BacklogStore, ProviderStore
from dragoman.services.signatures.tracker import Tracker
from dragoman.services.signatures.webhooks import WebhookService
from dragoman.services.signatures.worker import SignatureWorker
from dragoman.services.tenancy.models import UserStatus
from dragoman.services.tenancy.store import TenancyStore

_LOG = structlog.get_logger(__name__)
_TIMEOUT_S: Final = 30.0
_SWEEP_S: Final = 15.0
# A signed document comes back whole, and a provider adds its own pages to it.
_SPARE: Final = 2


class _Documents:
    """Documents, as signatures need them."""

    def __init__(self, documents: DocumentService) -> None:
        self._documents = documents

    async def read(self, caller: Caller, ref: str, version: int | None) -> SourceDocument:
        held = await self._documents.read(caller, ref, version)
        # What is signed must be what its hash says, whoever may have been at the database.
        if (found := hashlib.sha256(held.content).hexdigest()) != held.version.sha256:
            raise WrongContent(expected=held.version.sha256, current=found, version=held.version.version)
        return SourceDocument(
            id=held.document.id,
            version=held.version.version,
            sha256=held.version.sha256,
            title=held.document.title,
            media_type=held.version.media_type.value,
            content=held.content,
        )

    async def keep_signed(
        self, caller: Caller, document_id: UUID, content: bytes, *, task_id: UUID, step: str
    ) -> KeptVersion:
        made = Made(content, MediaType.PDF, VersionKind.SIGNED, task_id, step)
        placed = await self._documents.append(caller, str(document_id), made)
        return KeptVersion(placed.version.version, placed.version.sha256, placed.version.uri)

    async def send_out(self, caller: Caller, document_id: UUID) -> None:
        await self._documents.move(caller, str(document_id), DocumentState.SENT)

    async def take_back(self, caller: Caller, document_id: UUID) -> None:
        try:
            await self._documents.move(caller, str(document_id), DocumentState.DRAFT)
        except DocumentClosed:
            return  # executed by another request: it stays so


class _People:
    """The users of a tenant, as signatures need them."""

    def __init__(self, store: TenancyStore) -> None:
        self._store = store

    async def find(self, caller: Caller, subject: str) -> Person | None:
        return _person(await self._store.find_subject(scope_of(caller), subject))

    async def find_by_email(self, caller: Caller, email: str) -> Person | None:
        return _person(await self._store.find_email(scope_of(caller), email))


def _person(user: Record | None) -> Person | None:
    if user is None:
        return None
    active = user["status"] == UserStatus.ACTIVE
    return Person(user["id"], user["subject"], user["name"], user["email"], active)


@dataclass(slots=True)
class SignatureCore:
    """The signatures of this process: to be started after the database, and stopped before it.

    `service` answers whether a document is signed; `receive` takes webhooks of `providers`.
    """

    service: SignatureService
    worker: SignatureWorker
    webhooks: WebhookService
    clients: TenantClients
    press: Press
    works: bool
    resources: SignatureResources

    @property
    def providers(self) -> list[str]:
        """Whose webhooks are taken."""
        return [provider.value for provider in RemoteProvider]

    async def receive(self, delivery: Delivery) -> Receipt:
        """Store a webhook of a signing provider, and do what it says.

        Raises:
            Unauthenticated: it is not signed with a key of the configuration that its address names.
        """
        receipt = await self.webhooks.receive(delivery.provider, delivery.target, delivery.headers, delivery.body)
        return Receipt([receipt.id], receipt.duplicate)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Sequence[Job]]:
        """Give the job that takes up what was left undone, where this process works."""
        sweep = Job(name="signature_sweep", work=self.webhooks.sweep, every_s=_SWEEP_S, wake=self.webhooks.news)
        try:
            yield [sweep] if self.works else []
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Let go of the signing process and of the providers."""
        await self.press.stop()
        await self.clients.aclose()


def build_signatures(
    settings: Settings,
    handlers: Handlers,
    dbs: tuple[Database, Database],
    trail: AuditTrail,
    held: DocumentService,
    keyring: Keyring,
    outgoing: Clients,
) -> SignatureCore:
    """Signatures over these documents, their operations bound; `dbs` are the application's and the core's."""
    db, core_db = dbs
    authority = CertificateAuthority(keyring.signing)
    press = Press(authority)
    embedded = EmbeddedProvider(authority, press)
    clients = outgoing.of_tenants(
        Upstream.SIGNING, most_bytes=_SPARE * settings.contracts.max_document_bytes, timeout_s=_TIMEOUT_S
    )
    documents = _Documents(held)
    statements = Statements(db, trail, PROMISED)
    store, configured = SignatureStore(db, statements), ProviderStore(db)
    providers = Providers(
        configured,
        embedded,
        vault=Vault(keyring.vault),
        clients=clients,
        authority=authority,
        new_id=new_id,
    )
    tracker = Tracker(store, db, documents, providers, Notary(keyring.audit))
    identities = Identities(_People(TenancyStore(db)))
    signing = Signing(tracker, documents, embedded)
    service = SignatureService(store, tracker, documents, identities, signing=signing, press=press)
    links = LinkService(LinkStore(db, statements), store, documents, signing, pepper=keyring.pepper, new_id=new_id)
    worker = SignatureWorker(store, tracker, providers, documents, identities=identities, press=press, new_id=new_id)
    webhooks = WebhookService(configured, BacklogStore(core_db), store, tracker, providers, new_id=new_id)
    _bind(handlers, service, providers, links)
    resources = SignatureResources(store, DocumentResources(held))
    return SignatureCore(service, worker, webhooks, clients, press, settings.tasks.take_over, resources)


def _bind(handlers: Handlers, service: SignatureService, providers: Providers, links: LinkService) -> None:
    handlers.add(operations.LIST, service.list)
    handlers.add(operations.GET, service.get)
    handlers.add(operations.SIGN_DOCUMENT, service.sign)
    handlers.add(operations.DECLINE, service.decline)
    handlers.add(operations.VERIFY, service.verify)
    handlers.add(operations.CREATE_LINK, links.create)
    handlers.add(operations.SHOW_LINK, links.show)
    handlers.add(operations.READ_LINK, links.read)
    handlers.add(operations.SIGN_BY_LINK, links.sign)
    handlers.add(operations.DECLINE_BY_LINK, links.decline)
    handlers.add(operations.CONFIGURE, providers.configure)
    handlers.add(operations.LIST_PROVIDERS, providers.list)
    handlers.add(operations.REMOVE_PROVIDER, providers.remove)
