"""What a vertical is to the core: one record, found by its entry point.

    [project.entry-points."dragoman.plugins"]
    costs = "dragoman_costs.plugin:PLUGIN"

`Plugin` says what can be read without a server: operations with their addresses, settings, migrations, commands. Every
command line reads it, so what takes time to import is named as `module:attribute`. `build` names a function that makes
a `Vertical`, what runs in a server. docs/plugins.md has an example from end to end.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dragoman.infra.extensions import ExtensionError, installed_extensions, load_named

if TYPE_CHECKING:  # a command line reads the record alone
    from collections.abc import AsyncGenerator
    from uuid import UUID

    from dragoman import kit
    from dragoman.context import Caller
    from dragoman.infra.auth.vault import Vault
    from dragoman.infra.config import Section, Settings
    from dragoman.infra.db import Database
    from dragoman.infra.jobs import Job
    from dragoman.infra.outbound import Clients
    from dragoman.infra.telemetry.health import Check
    from dragoman.operations import AnyOperation, Binding, Handlers
    from dragoman.services.audit.rows import RowGroup
    from dragoman.services.audit.trail import AuditTrail
    from dragoman.services.inbox.ports import EventHandler
    from dragoman.services.tasks.actions.ports import ResourceCheck
    from dragoman.services.workers.protocol import Worker

SectionT = TypeVar("SectionT", bound="Section")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list in a terminal; see `doors.cli.table.Column`."""

    field: str
    title: str = ""
    flexible: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the shell: `dragoman NAME`.

    `load` names a function as `module:function` that takes the summary and returns a click command; without it there is
    a command for each operation of the noun NAME.
    """

    name: str
    summary: str
    load: str = ""


class GateRun(Protocol):
    """Runs an operation of any part of the server through the gate."""

    async def __call__(
        self, operation: str, caller: "Caller", request: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Any:
        """Return the output of the operation of this name.

        Raises:
            DragomanError: a guard refused, or the operation failed.
        """
        ...


class Publish(Protocol):
    """Tells those who subscribed to an event of it; docs/webhooks.md."""

    async def __call__(
        self, tenant: "UUID", event_type: str, *, subject: str | None = None, data: Mapping[str, Any]
    ) -> None:
        """Publish an event in the transaction that is open in `db` or `core_db`, or in one of its own.

        `event_type` is one that the plugin's record declares. `subject` is the id of what it is about; `data` holds
        identifiers, states and figures, and no contents. Subscribers are told when the transaction is committed.

        Raises:
            ValueError: no plugin declares this type.
        """
        ...


class Permits(Protocol):
    """Checks whether a caller may run another operation: for answers that show more to those who may see more."""

    def __call__(self, caller: "Caller", action: "AnyOperation", /) -> bool:
        """Check roles, scopes and policies; nothing is counted or recorded."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What the core gives a plugin. `db` sees the rows of one tenant at a time; `core_db` works across tenants."""

    settings: "Settings"
    handlers: "Handlers"
    db: "Database"
    core_db: "Database"
    trail: "AuditTrail"
    vault: "Vault"
    outgoing: "Clients"
    run: GateRun
    publish: Publish
    permits: Permits
    performs: bool

    def section(self, kind: "type[SectionT]") -> "SectionT":
        """Return the settings of a plugin."""
        return self.settings.section(kind)


@asynccontextmanager
async def _nothing() -> "AsyncGenerator[Sequence[Job]]":
    yield ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertical:
    """What a plugin contributes to a running server, beside the handlers that it has bound.

    `running` is entered after the database is there and left before it goes; it yields the background jobs. The keys of
    `checks` become dependencies in `/health`. `handles` has the handlers of incoming webhooks by topic; one may be
    called again for the same event, so what it does goes under the event's `key`.
    """

    workers: "Sequence[Worker]" = ()
    resources: "Sequence[ResourceCheck]" = ()
    skills: "Mapping[str, Callable[[Iterable[kit.Tool]], kit.SkillHandler]]" = field(default_factory=dict[str, Any])
    rows: "Sequence[RowGroup]" = ()
    checks: "Mapping[str, Check]" = field(default_factory=dict[str, "Check"])
    handles: "Mapping[str, EventHandler]" = field(default_factory=dict[str, Any])
    running: "Callable[[], AbstractAsyncContextManager[Sequence[Job]]]" = _nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A vertical, as its entry point names it.

    `bindings` names a sequence of `Binding`, `settings` a `Section` that is read as DRAGOMAN_<NAME>__*, and `build` a
    function from `Platform` to `Vertical`. `migrations` is the package that holds the SQL files. `policies` is Cedar
    text beside the built-in policies, for permissions that these do not know. `query` is the operation that answers a
    bare query at the agent gateway, for one plugin of an installation. `publishes` has the types of events that others
    may subscribe to, each with what it tells.
    """

    name: str
    build: str
    bindings: str = ""
    settings: str = ""
    migrations: str = ""
    policies: str = ""
    query: str = ""
    commands: Sequence[Command] = ()
    columns: Mapping[str, Sequence[Column]] = field(default_factory=dict[str, Sequence[Column]])
    publishes: Mapping[str, str] = field(default_factory=dict[str, str])

    def load_bindings(self) -> "Sequence[Binding]":
        """Return the operations with their addresses."""
        return load_named(self.bindings) if self.bindings else ()

    def load_settings(self) -> "type[Section] | None":
        """Return the type of the settings."""
        return load_named(self.settings) if self.settings else None

    def load_build(self) -> "Callable[[Platform], Vertical]":
        """Return what builds it for a server."""
        return load_named(self.build)


@cache
def installed_plugins() -> tuple[Plugin, ...]:
    """Return the installed plugins.

    Raises:
        ExtensionError: one is not a plugin, or cannot be loaded.
    """
    found = installed_extensions()
    for name, one in found.items():
        if not isinstance(one, Plugin) or one.name != name:
            raise ExtensionError(f"plugins: {name!r} must name a dragoman.plugin.Plugin of that name, not {one!r}")
    return tuple(found.values())


def find_columns(noun: str) -> Sequence[Column] | None:
    """Return the columns that a plugin chose for lists of a noun."""
    return next((plugin.columns[noun] for plugin in installed_plugins() if noun in plugin.columns), None)
