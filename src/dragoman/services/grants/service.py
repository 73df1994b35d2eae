"""Rules of grants: a person lets an agent act for them, and an admin may do so for another."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from dragoman.context import Caller, Role
from dragoman.errors import Conflict, Forbidden, InvalidInput, NotFound
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman.services.grants import models as m
from dragoman.services.grants.store import GrantStore, Record


class GrantService:
    """Keeps grants, and finds the one that covers an action."""

    def __init__(self, store: GrantStore, *, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._new_id = new_id

    async def create(self, caller: Caller, given: m.CreateGrant) -> m.GrantView:
        """Let an agent act for the caller or, where an admin says so, for another.

        Raises:
            Forbidden: the caller is a program, or names another person and is no admin.
            InvalidInput: it would be for nobody else, or is over already.
        """
        on_behalf_of = given.on_behalf_of or caller.subject
        if not caller.is_person:
            raise Forbidden("only a person grants the right to act for them", reason="PEOPLE_ONLY")
        if on_behalf_of != caller.subject and not _is_admin(caller):
            raise Forbidden(
                f"only {on_behalf_of} or an org_admin grants the right to act for {on_behalf_of}", reason="NOT_YOURS"
            )
        if given.agent == on_behalf_of:
            raise InvalidInput.of("agent", "must differ from on_behalf_of: everyone may act for themselves")
        if given.expires_at is not None and given.expires_at <= datetime.now(UTC):
            raise InvalidInput.of("expires_at", "must be in the future")
        grant_id = self._new_id()
        await self._store.add(
            scope_of(caller),
            grant_id,
            agent=given.agent,
            on_behalf_of=on_behalf_of,
            actions=sorted(set(given.actions)),
            expires_at=given.expires_at,
            reason=given.reason,
            by=caller.subject,
        )
        return await self.show(caller, m.GrantRef(grant_id=grant_id))

    async def list(self, caller: Caller, wanted: m.ListGrants) -> Page[m.GrantView]:
        """Return the grants that the caller may see, newest first."""
        rows = await self._store.list_page(
            scope_of(caller),
            wanted.limit + 1,
            wanted.cursor,
            agent=wanted.agent,
            on_behalf_of=wanted.on_behalf_of,
            ended=wanted.include_ended,
            seen_by=None if _is_admin(caller) else caller.subject,
        )
        return page([m.GrantView.model_validate(row) for row in rows], wanted.limit)

    async def show(self, caller: Caller, ref: m.GrantRef) -> m.GrantView:
        """Return one grant.

        Raises:
            NotFound: it does not exist, or the caller neither gave it, nor was given it, nor is an admin.
        """
        return m.GrantView.model_validate(await self._get(caller, ref.grant_id))

    async def end(self, caller: Caller, given: m.EndGrant) -> m.GrantView:
        """End a grant at once.

        Raises:
            Forbidden: the caller may see it and not end it.
            Conflict: it has ended already.
        """
        row = await self._get(caller, given.grant_id)
        if caller.subject not in (row["agent"], row["on_behalf_of"]) and not _is_admin(caller):
            raise Forbidden(
                f"only {row['on_behalf_of']}, {row['agent']} or an org_admin ends this grant", reason="NOT_YOURS"
            )
        if not await self._store.end(scope_of(caller), given.grant_id, caller.subject, given.reason):
            raise Conflict("the grant has ended already", grant_id=str(given.grant_id), reason="GRANT_ENDED")
        return await self.show(caller, given)

    async def end_of(self, caller: Caller, subject: str, reason: str) -> None:
        """End every grant of a principal that is disabled or deleted, in the unit that does so."""
        await self._store.end_of(scope_of(caller), subject, caller.subject, reason)

    async def find(self, caller: Caller, on_behalf_of: str, action: str) -> UUID | None:
        """Return the grant by which the caller may do this for a person; None where there is none."""
        return await self._store.find_covering(scope_of(caller), caller.subject, on_behalf_of, action)

    async def _get(self, caller: Caller, grant_id: UUID) -> Record:
        row = await self._store.find(scope_of(caller), grant_id)
        sees = row is not None and caller.subject in (row["agent"], row["on_behalf_of"], row["created_by"])
        if row is None or not (sees or _is_admin(caller)):
            raise NotFound("grant", grant_id)
        return row


def _is_admin(caller: Caller) -> bool:
    return bool(caller.roles & {Role.ORG_ADMIN, Role.SUPER_ADMIN})
