"""Webhook sources of a tenant: registered, changed, given new secrets, removed."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from pydantic import SecretStr

from dragoman.context import Caller
from dragoman.errors import FieldError, InvalidInput, NotFound, Stale
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.inbox import models as m
from dragoman.services.inbox.secrets import Secret, SecretBox, make_secret, read_secret, superseded
from dragoman.services.inbox.store_sources import Record, SourceStore

PATH: Final = "/api/webhooks"


class SourceService:
    """Keeps the sources of a tenant."""

    def __init__(self, store: SourceStore, box: SecretBox, *, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._box = box
        self._new_id = new_id

    async def create(self, caller: Caller, given: m.CreateSource) -> m.NewSource:
        """Register a source; its secret is in the answer, this once.

        Raises:
            InvalidInput: the secret cannot be one.
        """
        source_id = self._new_id()
        held = [_chosen(given.secret)] if given.provider in m.SECRETIVE else []
        row = await self._store.add(
            scope_of(caller),
            source_id,
            name=given.name,
            provider=given.provider.value,
            account=given.account,
            settings=given.model_dump(include=set(m.SETTINGS), exclude_none=True),
            secrets=self._box.seal(caller.tenant, source_id, held),
            by=caller.subject,
        )
        return self._new(row, held)

    async def list(self, caller: Caller, wanted: m.ListSources) -> Page[m.Source]:
        """Return sources, newest first."""
        provider = wanted.provider.value if wanted.provider else None
        rows = await self._store.list_page(scope_of(caller), wanted.limit + 1, wanted.cursor, provider)
        return page([m.Source.model_validate(self._shown(row)) for row in rows], wanted.limit)

    async def get(self, caller: Caller, ref: m.SourceRef) -> m.Source:
        """Return one source.

        Raises:
            NotFound: it does not exist, or belongs to another tenant.
        """
        return m.Source.model_validate(self._shown(await self._get(caller, ref.source_id)))

    async def update(self, caller: Caller, change: m.UpdateSource) -> m.Source:
        """Change a source.

        Raises:
            Stale: it is no longer at the expected version.
            InvalidInput: a setting is that of another provider.
        """
        current = await self._get(caller, change.source_id)
        settings = current["settings"] | change.model_dump(include=set(m.SETTINGS), exclude_none=True)
        try:
            m.check_settings(m.Provider(current["provider"]), settings)
        except ValueError as error:
            raise InvalidInput([FieldError(field="", message=str(error))], str(error)) from None
        expected = change.expected_version or current["version"]
        row = await self._store.change(
            scope_of(caller),
            change.source_id,
            version=expected,
            name=change.name,
            account=change.account,
            settings=settings,
        )
        if row is None:
            raise Stale("source", expected=expected, current=current["version"])
        return m.Source.model_validate(self._shown(row))

    async def rotate(self, caller: Caller, given: m.RotateSource) -> m.NewSource:
        """Give a source a new secret; those before it end after the grace.

        Raises:
            InvalidInput: its provider has no secret, or the secret cannot be one.
            Stale: another request has changed it meanwhile.
        """
        current = await self._get(caller, given.source_id)
        if current["provider"] not in m.SECRETIVE:
            raise InvalidInput.of("source_id", f"a source of {current['provider']} has no secret to rotate")
        live = self._box.open(caller.tenant, given.source_id, current["secrets"])
        held = superseded(live, _chosen(given.secret), grace_s=given.grace_s)
        row = await self._store.change(
            scope_of(caller),
            given.source_id,
            version=current["version"],
            secrets=self._box.seal(caller.tenant, given.source_id, held),
        )
        if row is None:
            raise Stale("source", expected=current["version"], current=current["version"] + 1)
        return self._new(row, held)

    async def remove(self, caller: Caller, ref: m.SourceRef) -> m.RemovedSource:
        """Remove a source with its events.

        Raises:
            NotFound: it does not exist, or belongs to another tenant.
        """
        if not await self._store.remove(scope_of(caller), ref.source_id):
            raise NotFound("webhook source", ref.source_id)
        return m.RemovedSource(id=ref.source_id)

    async def _get(self, caller: Caller, source_id: UUID) -> Record:
        row = await self._store.find(scope_of(caller), source_id)
        if row is None:
            raise NotFound("webhook source", source_id)
        return row

    def _shown(self, row: Record) -> dict[str, Any]:
        held = self._box.open(row["tenant_id"], row["id"], row["secrets"])
        path = f"{PATH}/{row['provider']}/{row['id']}"
        return {**row, **row["settings"], "path": path, "secrets": [one.shown() for one in held]}

    def _new(self, row: Record, held: Sequence[Secret]) -> m.NewSource:
        return m.NewSource.model_validate({**self._shown(row), "secret": held[0].text if held else None})


def _chosen(given: SecretStr | None) -> Secret:
    return make_secret() if given is None else read_secret(given.get_secret_value())
