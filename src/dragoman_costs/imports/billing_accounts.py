"""Which cloud account a file is the bill of: what the file says, whatever form its identifier has."""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from dragoman.context import Caller
from dragoman.infra.db import Scope, scope_of
from dragoman_costs.accounts.store import AccountStore, AccountTaken, NewAccount
from dragoman_costs.imports import models as m
from dragoman_costs.imports.errors import ImportRefused
from dragoman_costs.imports.files import ImportFiles
from dragoman_costs.imports.reader import ExportReader
from dragoman_costs.imports.store import ImportStore
from dragoman_costs.imports.uploads import UploadService

# Words in the names that providers have in bills.
_PROVIDERS: Final = {
    "aws": "aws", "amazon": "aws", "microsoft": "azure", "azure": "azure", "google": "gcp", "gcp": "gcp",
    "kubernetes": "kubernetes",
}  # fmt: skip
_LONGEST: Final = 200


class BillingAccounts:
    """Finds the accounts of uploads."""

    def __init__(
        self,
        accounts: AccountStore,
        imports: ImportStore,
        uploads: UploadService,
        reader: ExportReader,
        files: ImportFiles,
        *,
        new_id: Callable[[], UUID],
    ) -> None:
        self._accounts = accounts
        self._imports = imports
        self._uploads = uploads
        self._reader = reader
        self._files = files
        self._new_id = new_id

    async def find_account(self, caller: Caller, ref: m.UploadRef) -> m.AccountFound:
        """Return the cloud account of an upload; one that is not there yet is registered.

        Raises:
            NotFound: there is no such upload.
            UploadIncomplete: parts are missing.
            ImportRefused: it is no billing export, or that of a provider that cannot be registered.
        """
        scope = scope_of(caller)
        await self._uploads.check(scope, ref.upload_id)
        async with self._files.directory(caller.tenant, self._new_id()) as work:
            file = work / "source"
            await self._uploads.fetch(scope, ref.upload_id, file)
            bills = await self._reader.inspect(caller.tenant, file, work)
        provider, identifier = _first(bills)
        account = await self._imports.find_billed(scope, provider, identifier)
        registered = account is None
        if account is None:
            account = await self._register(scope, caller, provider, identifier)
        return m.AccountFound.model_validate(
            {"account_id": account["id"], "name": account["name"], "provider": provider, "identifier": identifier,
             "registered": registered, "bills": bills}
        )  # fmt: skip

    async def _register(self, scope: Scope, caller: Caller, provider: str, identifier: str) -> dict[str, Any]:
        new = NewAccount(
            self._new_id(), provider, identifier, f"{provider} {identifier}"[:_LONGEST], "active", caller.subject
        )
        try:
            return await self._accounts.add(scope, new)
        except AccountTaken:
            account = await self._imports.find_billed(scope, provider, identifier)
            if account is None:
                raise
            return account


def _first(bills: list[dict[str, Any]]) -> tuple[str, str]:
    for bill in bills:
        name = str(bill["provider"] or "").lower()
        provider = next((kind for word, kind in _PROVIDERS.items() if word in name), None)
        if provider is not None and bill["billing_account"]:
            return provider, str(bill["billing_account"])[:_LONGEST]
    named = ", ".join(sorted({str(bill["provider"]) for bill in bills})) or "none"
    raise ImportRefused(
        "UNKNOWN_ACCOUNT", f"its providers ({named}) cannot be registered by themselves: name an account"
    )
