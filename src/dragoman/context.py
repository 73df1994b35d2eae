"""Who is asking, and within which request: passed down, never looked up from a body or a path."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter, time
from typing import Any, Generic, NewType, TypeVar
from uuid import UUID

from dragoman.errors import DragomanError

TenantId = NewType("TenantId", UUID)


class Role(StrEnum):
    """What a principal is in its tenant; Cedar policies say what each may do."""

    SUPER_ADMIN = "super_admin"
    ORG_ADMIN = "org_admin"
    OPERATOR = "operator"
    ANALYST = "analyst"
    VIEWER = "viewer"
    AGENT = "agent"


class PrincipalType(StrEnum):
    """A person, a program acting by itself, or a program acting for the tenant."""

    USER = "user"
    AGENT = "agent"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated principal; it comes from credentials only.

    `scopes` is None when the credential does not narrow what the roles allow.
    """

    tenant: TenantId
    tenant_slug: str
    subject: str
    type: PrincipalType
    roles: frozenset[Role]
    credential: str
    issued_at: float
    scopes: frozenset[str] | None = None
    plan: str = "standard"
    # Set when the credentials do not say what kind of principal they are for: `type` is then the least trusted guess.
    kind_unknown: bool = False
    # Set when the credential is an API key, which programs hold, whatever `type` its maker gave it.
    by_key: bool = False
    # The one-time link that the credential is: of somebody without an account, who may answer it and nothing else.
    by_link: UUID | None = None
    # When the credential ends, as far as was known when it was shown; None for one that does not.
    expires_at: float | None = None
    # Requests a minute over the agent gateway, where the registration says otherwise than the server.
    per_min: int | None = None

    @property
    def is_person(self) -> bool:
        """Whether the credentials prove a person, as deciding for people and signing demand."""
        return self.type is PrincipalType.USER and not self.kind_unknown and not self.by_key

    @property
    def platform(self) -> bool:
        """Whether the caller runs the installation, not only a tenant in it."""
        return Role.SUPER_ADMIN in self.roles


def ourselves(tenant: UUID, subject: str = "dragoman", *, roles: frozenset[Role] = frozenset()) -> Caller:
    """The server in a tenant, for what it does there when nobody asks for it."""
    return Caller(
        tenant=TenantId(tenant),
        tenant_slug="",
        subject=subject,
        type=PrincipalType.SERVICE,
        roles=roles,
        credential="internal",
        issued_at=time(),
    )


@dataclass(slots=True)
class RequestContext:
    """One request through one door: what logs, metrics and response headers need to know of it.

    Mutable on purpose: the layers below the edge leave here what the edge must say in its answer.
    """

    # A UUID of ours. What the client calls its request is the correlation id.
    id: str
    door: str
    ip: str = ""
    # By name, in small letters; they hold credentials, and are not to be shown.
    headers: dict[bytes, str] = field(default_factory=dict[bytes, str], repr=False)
    correlation_id: str = ""
    route: str = ""
    caller: Caller | None = None
    operation: str = ""
    response_headers: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    started: float = field(default_factory=perf_counter)
    span: Any = None
    # What the client is told that is wrong, for the edge to log.
    refusal: DragomanError | None = None
    # Set when the server stops: whatever goes on for as long as the client listens ends then.
    stopping: asyncio.Event | None = None
    _held: ExitStack | None = None

    def hold(self, held: AbstractContextManager[object]) -> None:
        """Enter something that is left when the request is over, however it ends."""
        if self._held is None:
            self._held = ExitStack()
        self._held.enter_context(held)

    def let_go(self) -> None:
        """Leave what the request held."""
        if self._held is not None:
            self._held.close()


_CURRENT: ContextVar[RequestContext | None] = ContextVar("dragoman_request", default=None)


def enter_request(request: RequestContext) -> None:
    """Make this the request of the running asyncio task and of every task it starts."""
    _CURRENT.set(request)


def current_request() -> RequestContext | None:
    """The request that the running code serves, or None outside one (start-up, background jobs)."""
    return _CURRENT.get()


T = TypeVar("T")


class _Within(Generic[T]):
    """A variable with a value for a while. Every task does this twice, and a generator takes four times as long."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


Progress = Callable[[str, float | None], Awaitable[None]]
_PROGRESS: ContextVar[Progress | None] = ContextVar("dragoman_progress", default=None)


def progress_to(progress: Progress) -> "_Within[Progress | None]":
    """Let whoever follows this work hear how far it is, as long as a `with` lasts."""
    return _Within(_PROGRESS, progress)


async def report_progress(text: str, percent: float | None = None) -> None:
    """Say how far an operation is; nobody may be listening."""
    if (progress := _PROGRESS.get()) is not None:
        await progress(text, percent)


_TASK: ContextVar[str | None] = ContextVar("dragoman_task", default=None)


def within_task(task_id: str) -> "_Within[str | None]":
    """Let what is done meanwhile know for which task it is done, as long as a `with` lasts."""
    return _Within(_TASK, task_id)


def current_task() -> str | None:
    """The id of the task that the running code works for, or None outside one."""
    return _TASK.get()
