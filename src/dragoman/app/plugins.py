"""Builds the installed plugins, and collects what they contribute to a server."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from dragoman.app.offers import SkillFactories
from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.gate import Gate
from dragoman.infra.auth.vault import Vault
from dragoman.infra.config import Settings
from dragoman.infra.db import Database, Scope
from dragoman.infra.ids import new_id
from dragoman.infra.outbound import Clients
from dragoman.operations import Handlers
from dragoman.plugin import Permits, Platform, Vertical, installed_plugins
from dragoman.services.audit.rows import RowGroup
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.subscriptions.store_outbox import Outbox
from dragoman.services.tasks.actions.ports import ResourceCheck
from dragoman.services.tasks.actions.resources import CheckedResources
from dragoman.services.workers.protocol import Worker


class Plugged:
    """The plugins of this process. They may run operations of others once `join` gave them the gate."""

    def __init__(
        self,
        settings: Settings,
        handlers: Handlers,
        dbs: tuple[Database, Database],
        trail: AuditTrail,
        vault: Vault,
        outgoing: Clients,
        permits: Permits,
    ) -> None:
        self._handlers = handlers
        self._gate: Gate | None = None
        self._dbs = db, core_db = dbs
        self._event_types = {name for plugin in installed_plugins() for name in plugin.publishes}
        platform = Platform(
            settings=settings,
            handlers=handlers,
            db=db,
            core_db=core_db,
            trail=trail,
            vault=vault,
            outgoing=outgoing,
            run=self._run,
            publish=self._publish,
            permits=permits,
            performs=settings.tasks.take_over,
        )
        self.verticals: Sequence[Vertical] = [plugin.load_build()(platform) for plugin in installed_plugins()]

    def join(self, gate: Gate) -> list[Worker]:
        """Let plugins run operations; return the workers of all of them."""
        self._gate = gate
        return [worker for vertical in self.verticals for worker in vertical.workers]

    @property
    def rows(self) -> list[RowGroup]:
        """The rows that audit records of plugins speak for."""
        return [group for vertical in self.verticals for group in vertical.rows]

    def resources(self, own: Sequence[ResourceCheck]) -> CheckedResources:
        """Return what knows all resources: those of the core and those of plugins."""
        return CheckedResources((*own, *(check for vertical in self.verticals for check in vertical.resources)))

    @property
    def skills(self) -> SkillFactories:
        """The skills of all plugins, by their ids."""
        return {name: factory for vertical in self.verticals for name, factory in vertical.skills.items()}

    async def _run(
        self, operation: str, caller: Caller, request: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Any:
        if self._gate is None:
            raise RuntimeError("a plugin ran an operation before the server was built")
        found = self._handlers.find_tool(operation.replace(".", "_"))
        if found is None:
            raise NotFound("operation", operation)
        return await self._gate.run(found, caller, dict(request), idempotency_key=idempotency_key)

    async def _publish(
        self, tenant: UUID, event_type: str, *, subject: str | None = None, data: Mapping[str, Any]
    ) -> None:
        if event_type not in self._event_types:
            raise ValueError(f"no plugin declares events of the type {event_type!r}: add it to `events` of its record")
        for db in self._dbs:
            if (scope := db.open_scope) is not None:
                await Outbox(db, new_id=new_id).publish(scope, tenant, event_type, subject=subject, data=data)
                return
        db, _ = self._dbs
        await Outbox(db, new_id=new_id).publish(Scope(tenant), tenant, event_type, subject=subject, data=data)
