"""What signatures ask of others, and what others ask of them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller, TenantId
from dragoman.services.signatures.models import Signer
from dragoman.services.signatures.states import SignerState, Status


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A version of a document, with its content."""

    id: UUID
    version: int
    sha256: str
    title: str
    media_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A version that was added."""

    version: int
    sha256: str
    uri: str


class Documents(Protocol):
    """Where documents are kept."""

    async def read(self, caller: Caller, ref: str, version: int | None) -> SourceDocument:
        """A version, the newest when none is named.

        Raises:
            NotFound: there is no such document or version.
        """
        ...

    async def keep_signed(
        self, caller: Caller, document_id: UUID, content: bytes, *, task_id: UUID, step: str
    ) -> KeptVersion:
        """Keep a signed PDF as the next version, once for each step of a task."""
        ...

    async def send_out(self, caller: Caller, document_id: UUID) -> None:
        """It is out for signature: only signed versions may follow.

        Raises:
            Conflict: it was executed.
        """
        ...

    async def take_back(self, caller: Caller, document_id: UUID) -> None:
        """It is a draft again."""
        ...


@dataclass(frozen=True, slots=True)
class Person:
    """A user record; `active` once the person has accepted the invitation and while they are not disabled."""

    id: UUID
    subject: str
    name: str
    email: str
    active: bool


class People(Protocol):
    """The users of a tenant, and who a caller is."""

    async def find(self, caller: Caller, subject: str) -> Person | None:
        """Return the user of the caller's tenant whom tokens call by this subject."""
        ...

    async def find_by_email(self, caller: Caller, email: str) -> Person | None:
        """Return the user of the caller's tenant with this address."""
        ...


@dataclass(frozen=True, slots=True)
class Order:
    """What a provider is asked for, and by which tenant; the size of the last page is in points, as it is shown."""

    tenant: TenantId
    title: str
    message: str | None
    signers: tuple[Signer, ...]
    document: SourceDocument
    pages: int
    last_page: tuple[int, int]
    seal: bool
    organisation: str


@dataclass(frozen=True, slots=True)
class SignerNews:
    """What a provider says of one signer."""

    email: str
    state: SignerState
    at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class News:
    """What a provider says of a request."""

    status: Status
    signers: tuple[SignerNews, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Impression:
    """A PDF with one more signature, and the certificate that it was made with."""

    pdf: bytes = field(repr=False)
    certificate_sha256: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Sent:
    """That a request went out; `sealed` is what the provider has signed itself, at once."""

    status: Status
    sealed: Impression | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A webhook, read: about which request, by the provider's name for it or by ours."""

    news: News
    ref: str | None
    key: str | None


class SigningProvider(Protocol):
    """Gathers signatures. `repeatable` when nothing happens twice, however often it is called."""

    @property
    def repeatable(self) -> bool:
        """Whether everything may simply be done again after a crash."""
        ...

    async def draft(self, order: Order, key: str) -> str:
        """Prepare a request under our key, which nobody is told of: what the provider calls it."""
        ...

    async def find_draft(self, key: str) -> str | None:
        """What it calls the request that was drafted under our key; None when there is none."""
        ...

    async def send(self, order: Order, ref: str) -> Sent:
        """Ask the signers."""
        ...

    async def ask(self, ref: str) -> News | None:
        """How far it is; None when nobody knows better than we."""
        ...

    async def void(self, ref: str, reason: str) -> None:
        """Call it off."""
        ...

    async def fetch(self, ref: str) -> bytes:
        """The signed document of a completed request."""
        ...


@dataclass(frozen=True, slots=True)
class Signed:
    """Whether a version is completely and validly signed, and why or why not; `asked` when anybody was asked to."""

    complete: bool
    explanation: str
    asked: bool = True
    signature_id: UUID | None = None
    version: int | None = None
    sha256: str | None = None
    signers: tuple[str, ...] = ()
