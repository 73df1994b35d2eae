"""Puts signatures together: the embedded provider with its authority, the others, the worker, and their webhooks."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import httpx
import structlog

from dragoman import __version__
from dragoman.context import Caller
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.auth.vault import Vault
from dragoman.infra.config import Settings
from dragoman.infra.db import Database, scope_of
from dragoman.infra.ids import new_id
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import Allowed, Guard
from dragoman.operations import Handlers
from dragoman.services.contracts.documents import DocumentService, Made
from dragoman.services.contracts.errors import DocumentClosed, WrongContent
from dragoman.services.contracts.models import DocumentState, MediaType, VersionKind
from dragoman.services.signatures import operations
from dragoman.services.signatures.certificates import CertificateAuthority
from dragoman.services.signatures.embedded import EmbeddedProvider
from dragoman.services.signatures.evidence import Notary
from dragoman.services.signatures.models import RemoteProvider
from dragoman.services.signatures.ports import KeptVersion, SourceDocument
from dragoman.services.signatures.press import Press
from dragoman.services.signatures.providers import Providers
from dragoman.services.signatures.service import SignatureService
from dragoman.services.signatures.store import SignatureStore
from dragoman.services.signatures.store_providers import BacklogStore, ProviderStore
from dragoman.services.signatures.tracker import Tracker
from dragoman.services.signatures.webhooks import WebhookService
from dragoman.services.signatures.worker import SignatureWorker
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

    async def find_email(self, caller: Caller) -> str | None:
        user = await self._store.find_subject(scope_of(caller), caller.subject)
        return str(user["email"]) if user is not None else None

    async def came_by_key(self, caller: Caller) -> bool:
        try:
            credential = UUID(caller.credential)
        except ValueError:
            return False
        return await self._store.find_key(scope_of(caller), credential) is not None


@dataclass(slots=True)
class SignatureCore:
    """The signatures of this process: to be started after the database, and stopped before it.

    `service` answers whether a document is signed; `receivers` take webhooks, by provider.
    """

    service: SignatureService
    worker: SignatureWorker
    webhooks: WebhookService
    client: httpx.AsyncClient
    press: Press
    works: bool

    @property
    def receivers(self) -> dict[str, WebhookService]:
        """Who takes the webhooks of which provider."""
        return dict.fromkeys((provider.value for provider in RemoteProvider), self.webhooks)

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
        await self.client.aclose()


def build_signatures(
    settings: Settings, handlers: Handlers, db: Database, core_db: Database, held: DocumentService, keyring: Keyring
) -> SignatureCore:
    """Signatures over these documents, their operations bound."""
    authority = CertificateAuthority(keyring.signing)
    press = Press(authority)
    embedded = EmbeddedProvider(authority, press)
    guard = Guard(Allowed.of(settings.outbound.allow), most_bytes=_SPARE * settings.contracts.max_document_bytes)
    client = httpx.AsyncClient(
        transport=guard, trust_env=False, timeout=_TIMEOUT_S, headers={"user-agent": f"dragoman/{__version__}"}
    )
    documents = _Documents(held)
    store, configured = SignatureStore(db), ProviderStore(db)
    providers = Providers(
        configured,
        embedded,
        vault=Vault(keyring.vault),
        guard=guard,
        client=client,
        authority_pem=authority.pem,
        new_id=new_id,
    )
    tracker = Tracker(store, db, documents, providers, Notary(keyring.audit))
    people = _People(TenancyStore(db))
    service = SignatureService(store, tracker, documents, people, embedded=embedded, press=press)
    worker = SignatureWorker(store, tracker, providers, documents, press=press, new_id=new_id)
    webhooks = WebhookService(configured, BacklogStore(core_db), store, tracker, providers, new_id=new_id)
    _bind(handlers, service, providers)
    return SignatureCore(service, worker, webhooks, client, press, works=settings.tasks.take_over)


def _bind(handlers: Handlers, service: SignatureService, providers: Providers) -> None:
    handlers.add(operations.LIST, service.list)
    handlers.add(operations.GET, service.get)
    handlers.add(operations.SIGN_DOCUMENT, service.sign)
    handlers.add(operations.DECLINE, service.decline)
    handlers.add(operations.VERIFY, service.verify)
    handlers.add(operations.CONFIGURE, providers.configure)
    handlers.add(operations.LIST_PROVIDERS, providers.list)
    handlers.add(operations.REMOVE_PROVIDER, providers.remove)
