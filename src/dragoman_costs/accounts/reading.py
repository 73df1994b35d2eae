"""Reads a file at the address of an account's exports, for the import of it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import DragomanError, NotFound, UpstreamUnavailable
from dragoman.infra.db import scope_of
from dragoman_costs.accounts import models as m
from dragoman_costs.accounts.credentials import owner_of
from dragoman_costs.accounts.errors import ExportsUnreadable
from dragoman_costs.accounts.exports import Exports
from dragoman_costs.accounts.service import kept_credential
from dragoman_costs.accounts.sources import ExportProblem
from dragoman_costs.accounts.store import AccountStore


class AccountExports:
    """The files at the addresses of a tenant's accounts."""

    def __init__(self, store: AccountStore, exports: Exports) -> None:
        self._store = store
        self._exports = exports

    @asynccontextmanager
    async def open(self, caller: Caller, account_id: UUID, name: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Give the content of a file, opened with the credential that the account has now.

        Raises:
            NotFound: the tenant has no such account.
            ExportsUnreadable: the account or its credential does not lead to the file.
            UpstreamUnavailable: the host does not answer as it should; it may do so later.
        """
        row = await self._store.find(scope_of(caller), account_id)
        if row is None:
            raise NotFound("cloud account", account_id)
        account = m.Account.model_validate(row)
        try:
            source = await self._exports.open(owner_of(caller), account_id, account.config, kept_credential(row))
            async with source.open(name) as pieces:
                yield pieces
        except ExportProblem as problem:
            raise refusal_of(problem, account_id) from None


def refusal_of(problem: ExportProblem, account_id: UUID) -> DragomanError:
    """Return what a task fails with for a problem; one that may be over soon is tried again."""
    if problem.passing:
        return UpstreamUnavailable("the host of the exports")
    return ExportsUnreadable(problem.message, account_id=str(account_id))
