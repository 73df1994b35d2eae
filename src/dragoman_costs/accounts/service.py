"""Rules of cloud accounts."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import InvalidInput, NotFound, Stale
from dragoman.infra.db import scope_of
from dragoman.operations import Page, page
from dragoman_costs.accounts import models as m
from dragoman_costs.accounts.credentials import Credentials, owner_of
from dragoman_costs.accounts.identifiers import read_identifier
from dragoman_costs.accounts.store import AccountStore, ChangedAccount, KeptCredential, NewAccount, Record


class AccountService:
    """Registers, shows, changes and deletes cloud accounts."""

    def __init__(self, store: AccountStore, credentials: Credentials, *, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._credentials = credentials
        self._new_id = new_id

    async def check_new(self, caller: Caller, new: m.CreateAccount) -> m.CreateAccount:
        """Check the reference of a credential before a transaction begins.

        Raises:
            InvalidInput: it is not allowed, or leads nowhere.
        """
        if new.credential is not None:
            await self._credentials.check(owner_of(caller), new.credential)
        return new

    async def create(self, caller: Caller, new: m.CreateAccount) -> m.Account:
        """Register an account.

        Raises:
            AccountTaken: the tenant has it already.
        """
        account_id = self._new_id()
        waits = m.AccountStatus.PENDING_VERIFICATION if new.config.export_url else m.AccountStatus.ACTIVE
        row = await self._store.add(
            scope_of(caller),
            NewAccount(
                id=account_id,
                provider=new.provider.value,
                identifier=read_identifier(new.provider, new.identifier),
                name=new.name,
                status=waits.value,
                created_by=caller.subject,
                config=_kept_config(new.config),
                credential=self._credentials.keep(owner_of(caller), account_id, new.credential),
            ),
        )
        return m.Account.model_validate(row)

    async def list(self, caller: Caller, query: m.ListAccounts) -> Page[m.Account]:
        """Return accounts, newest first."""
        rows = await self._store.list_page(
            scope_of(caller),
            query.limit + 1,
            query.cursor,
            provider=query.provider and query.provider.value,
            status=query.status and query.status.value,
        )
        return page([m.Account.model_validate(row) for row in rows], query.limit)

    async def get(self, caller: Caller, ref: m.AccountRef) -> m.Account:
        """Return one account.

        Raises:
            NotFound: the tenant has no such account.
        """
        return m.Account.model_validate(await self._get(caller, ref.account_id))

    async def check_change(self, caller: Caller, change: m.UpdateAccount) -> m.UpdateAccount:
        """Check the reference of a new credential before a transaction begins.

        Raises:
            InvalidInput: it is not allowed, or leads nowhere.
        """
        if change.credential is not None:
            await self._credentials.check(owner_of(caller), change.credential)
        return change

    async def update(self, caller: Caller, change: m.UpdateAccount) -> m.Account:
        """Change an account.

        Raises:
            NotFound: the tenant has no such account.
            InvalidInput: its exports move to another host, and the credential was not sent again.
            Stale: the account has moved on since the caller read it.
        """
        row = await self._get(caller, change.account_id)
        if change.expected_version not in (None, row["version"]):
            raise Stale("cloud account", expected=change.expected_version or 0, current=row["version"])
        old = m.Account.model_validate(row)
        config = old.config if change.config is None else change.config
        kept = kept_credential(row)
        if change.credential is not None:
            kept = self._credentials.keep(owner_of(caller), old.id, change.credential)
        elif old.credential_kind is not m.CredentialKind.NONE and _origin(config) not in (None, _origin(old.config)):
            # Otherwise moving the exports would send the credential to a host of the caller's choice.
            raise InvalidInput.of("credential", "is required again when the exports move to another host")
        moved = change.credential is not None or config != old.config
        status = _status(old.status, change.status, moved=moved, exports=config.export_url is not None)
        changed = await self._store.change(
            scope_of(caller),
            old.id,
            ChangedAccount(
                name=change.name or old.name,
                status=status.value,
                config=_kept_config(config),
                credential=kept,
                last_error=None if moved else old.last_error,
                version=old.version,
            ),
        )
        if changed is None:
            raise Stale("cloud account", expected=old.version, current=old.version + 1)
        return m.Account.model_validate(changed)

    async def delete(self, caller: Caller, ref: m.AccountRef) -> m.DeletedAccount:
        """Delete an account; its costs are gone from every answer with it.

        Raises:
            NotFound: the tenant has no such account.
        """
        if not await self._store.delete(scope_of(caller), ref.account_id):
            raise NotFound("cloud account", ref.account_id)
        return m.DeletedAccount(id=ref.account_id)

    async def _get(self, caller: Caller, account_id: UUID) -> Record:
        row = await self._store.find(scope_of(caller), account_id)
        if row is None:
            raise NotFound("cloud account", account_id)
        return row


def kept_credential(row: Record) -> KeptCredential:
    """Return what is kept of the credential of an account."""
    return KeptCredential(
        row["credential_kind"], row["credential_ref"], row["credential_sealed"], row["credential_status"]
    )


def _kept_config(config: m.AccountConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", exclude_none=True)


def _status(old: m.AccountStatus, asked: str | None, *, moved: bool, exports: bool) -> m.AccountStatus:
    if asked == m.AccountStatus.DISCONNECTED or (asked is None and old is m.AccountStatus.DISCONNECTED):
        return m.AccountStatus.DISCONNECTED
    if asked is None and not moved:
        return old
    # That the exports can be read is seen at the next test or sync.
    return m.AccountStatus.PENDING_VERIFICATION if exports else m.AccountStatus.ACTIVE


def _origin(config: m.AccountConfig) -> tuple[str, str] | None:
    """Return where a credential is sent to."""
    if config.export_url is None:
        return None
    if config.export_url.startswith("s3://"):
        return "s3", config.endpoint or ""
    parts = urlsplit(config.export_url)
    return parts.scheme, parts.netloc
