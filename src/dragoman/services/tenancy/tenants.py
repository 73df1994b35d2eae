"""Rules of tenants: the platform makes and ends them, a tenant's admin may rename it."""

from collections.abc import Callable
from uuid import UUID

import orjson

from dragoman.context import Caller
from dragoman.errors import Forbidden, InvalidInput, NotFound, Stale
from dragoman.infra.db import Database, UniqueViolated, scope_of
from dragoman.operations import Page, page
from dragoman.services.tenancy.errors import OwnTenant, SlugTaken, WrongState
from dragoman.services.tenancy.models import (
    CreateTenant,
    ListTenants,
    Tenant,
    TenantRef,
    TenantStatus,
    UpdateTenant,
)
from dragoman.services.tenancy.revocations import Revocations
from dragoman.services.tenancy.store import TenancyStore

MOST_SETTINGS = 100
MOST_SETTINGS_BYTES = 65_536


class TenantService:
    """Keeps the tenants; who may call what is decided before this is reached."""

    def __init__(
        self,
        store: TenancyStore,
        revocations: Revocations,
        db: Database,
        *,
        new_id: Callable[[], UUID],
        deleted: Callable[[], None],
    ) -> None:
        self._store = store
        self._revocations = revocations
        self._db = db
        self._new_id = new_id
        self._deleted = deleted

    async def create(self, caller: Caller, new: CreateTenant) -> Tenant:
        """Make a tenant.

        Raises:
            SlugTaken: the database settles the race, not a prior read.
        """
        _check_settings(new.settings)
        try:
            row = await self._store.add_tenant(
                scope_of(caller), self._new_id(), new.slug, new.name, new.plan.value, new.settings
            )
        except UniqueViolated as error:
            raise SlugTaken(new.slug) from error
        return Tenant.model_validate(row)

    async def list(self, caller: Caller, wanted: ListTenants) -> Page[Tenant]:
        """Those the caller may see, newest first."""
        statuses = [wanted.status.value] if wanted.status else [TenantStatus.ACTIVE.value, TenantStatus.SUSPENDED.value]
        rows = await self._store.list_tenants(
            scope_of(caller), wanted.limit + 1, wanted.cursor, statuses, wanted.plan and wanted.plan.value
        )
        return page([Tenant.model_validate(row) for row in rows], wanted.limit)

    async def get(self, caller: Caller, ref: TenantRef) -> Tenant:
        """One tenant.

        Raises:
            NotFound: it does not exist, or the caller is of another one.
        """
        row = await self._store.find_tenant(scope_of(caller), ref.tenant)
        if row is None:
            raise NotFound("tenant", ref.tenant)
        return Tenant.model_validate(row)

    async def update(self, caller: Caller, change: UpdateTenant) -> Tenant:
        """Change a tenant.

        Raises:
            Stale: it is no longer at the expected version.
        """
        if change.plan is not None and not caller.platform:
            raise Forbidden("only the platform changes a plan", field="plan")
        if change.settings is not None:
            _check_settings(change.settings)
        tenant = await self.get(caller, change)
        row = await self._store.change_tenant(
            scope_of(caller),
            tenant.id,
            name=change.name,
            plan=change.plan and change.plan.value,
            settings=change.settings,
            version=change.expected_version,
        )
        if row is None:
            raise Stale("tenant", expected=change.expected_version or 0, current=tenant.version)
        return Tenant.model_validate(row)

    async def suspend(self, caller: Caller, ref: TenantRef) -> Tenant:
        """Refuse all its credentials from now on."""
        tenant = await self._foreign(caller, ref, TenantStatus.ACTIVE)
        await self._revocations.revoke(caller, tenant.id, "tenant", reason="suspended")
        return await self._move(caller, tenant, TenantStatus.SUSPENDED)

    async def resume(self, caller: Caller, ref: TenantRef) -> Tenant:
        """Let it in again."""
        tenant = await self._foreign(caller, ref, TenantStatus.SUSPENDED)
        await self._revocations.restore(caller, tenant.id, "tenant")
        return await self._move(caller, tenant, TenantStatus.ACTIVE)

    async def delete(self, caller: Caller, ref: TenantRef) -> Tenant:
        """End it for good: its users, keys and data go, its slug stays taken, its audit trail stays."""
        tenant = await self._foreign(caller, ref, None)
        await self._revocations.revoke(caller, tenant.id, "tenant", reason="deleted")
        await self._store.empty_tenant(scope_of(caller), tenant.id)
        await self._db.after_commit(self._after_deletion)
        return await self._move(caller, tenant, TenantStatus.DELETED)

    async def _after_deletion(self) -> None:
        self._deleted()

    async def _foreign(self, caller: Caller, ref: TenantRef, state: TenantStatus | None) -> Tenant:
        tenant = await self.get(caller, ref)
        if tenant.id == caller.tenant:
            raise OwnTenant
        if state is not None and tenant.status is not state:
            raise WrongState("tenant", tenant.status.value, state.value)
        return tenant

    async def _move(self, caller: Caller, tenant: Tenant, status: TenantStatus) -> Tenant:
        row = await self._store.change_tenant(scope_of(caller), tenant.id, status=status.value, version=tenant.version)
        if row is None:
            raise Stale("tenant", expected=tenant.version, current=tenant.version + 1)
        return Tenant.model_validate(row)


def _check_settings(settings: dict[str, object]) -> None:
    if len(orjson.dumps(settings)) > MOST_SETTINGS_BYTES:
        raise InvalidInput.of("settings", f"must not exceed {MOST_SETTINGS_BYTES} bytes as JSON")
    if len(settings) > MOST_SETTINGS:
        raise InvalidInput.of("settings", f"must not have more than {MOST_SETTINGS} entries")
