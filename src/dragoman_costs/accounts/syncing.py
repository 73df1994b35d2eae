"""The worker `costs-sync`: finds new and changed exports of an account, and asks for the import of each."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, cast
from uuid import UUID

from dragoman.context import Caller, PrincipalType, report_progress
from dragoman.errors import DragomanError, NotFound
from dragoman.infra.db import scope_of
from dragoman.plugin import GateRun
from dragoman.services.workers.protocol import Assignment, Capability, Performed
from dragoman_costs.accounts import models as m
from dragoman_costs.accounts.checking import verdict_of
from dragoman_costs.accounts.credentials import owner_of
from dragoman_costs.accounts.errors import ExportsUnreadable
from dragoman_costs.accounts.exports import Exports
from dragoman_costs.accounts.reading import refusal_of
from dragoman_costs.accounts.service import kept_credential
from dragoman_costs.accounts.sources import ExportFile, ExportProblem, ExportSource
from dragoman_costs.accounts.store import AccountStore
from dragoman_costs.accounts.store_syncing import KnownExports

ACTION: Final = "costs.sync"
# What is left goes along with the next sync.
_MOST_IMPORTS: Final = 1_000
_MOST_FILES: Final = 100_000
_MOST_SHOWN: Final = 100


class AccountSync:
    """Syncs accounts. What an attempt has asked for is not asked for again by the next one."""

    name = "costs-sync"
    capabilities: Sequence[Capability] = (
        Capability(
            ACTION,
            "Sync the billing exports of an account",
            m.PerformSync,
            required=False,
            timeout_s=900,
            permissions=("manage:accounts",),
        ),
    )

    def __init__(
        self, store: AccountStore, known: KnownExports, exports: Exports, *, run: GateRun, new_id: Callable[[], UUID]
    ) -> None:
        self._store = store
        self._known = known
        self._exports = exports
        self._run = run
        self._new_id = new_id

    async def submit(self, caller: Caller, request: m.SyncAccount) -> m.SyncAccepted:
        """Hand the sync of an account over as a task; syncs of one account run one after another.

        Raises:
            NotFound: the tenant has no such account.
            ExportsUnreadable: it has no exports, or is disconnected.
        """
        row = await self._store.find(scope_of(caller), request.account_id)
        if row is None:
            raise NotFound("cloud account", request.account_id)
        _check(m.Account.model_validate(row))
        envelope = envelope_of(caller, request.account_id, key=str(self._new_id()), everything=request.everything)
        submitted = await self._run("task.submit", caller, {"envelope": envelope})
        return m.SyncAccepted(account_id=request.account_id, task_id=submitted.task_id, state=str(submitted.state))

    async def perform(self, assignment: Assignment) -> Performed:
        """Ask for the imports of an account, and note with it what was found."""
        caller = assignment.caller
        account_id = UUID(assignment.envelope.resource.id)
        row = await self._store.find(scope_of(caller), account_id)
        if row is None:
            raise NotFound("cloud account", account_id)
        account = m.Account.model_validate(row)
        _check(account)
        try:
            source = await self._exports.open(owner_of(caller), account.id, account.config, kept_credential(row))
            request = cast("m.PerformSync", assignment.input)
            report = await self._walk(caller, account, source, str(assignment.task_id), everything=request.everything)
        except ExportProblem as problem:
            await self._store.note(scope_of(caller), account.id, account.version, verdict_of(account, problem))
            raise refusal_of(problem, account.id) from None
        await self._store.note(scope_of(caller), account.id, account.version, verdict_of(account, None), synced=True)
        return Performed(report)

    async def _walk(
        self, caller: Caller, account: m.Account, source: ExportSource, task_id: str, *, everything: bool
    ) -> dict[str, Any]:
        after, found, unchanged, count = None, 0, 0, 0
        imports: list[dict[str, Any]] = []
        refused: list[dict[str, Any]] = []
        while True:
            files, after = await source.list_page(after)
            found += len(files)
            names = [file.name for file in files]
            versions = await self._known.versions(scope_of(caller), account.id, names)
            for file in files:
                if not everything and file.version is not None and versions.get(file.name) == file.version:
                    unchanged += 1
                    continue
                if count == _MOST_IMPORTS:
                    break
                count += 1
                try:
                    imports.append(await self._import(caller, account, file, task_id))
                except DragomanError as error:
                    if error.retryable:
                        raise
                    refused.append({"name": file.name, "code": error.code, "message": error.message})
            await report_progress(f"{found} files, {len(imports)} to import")
            if after is None or count == _MOST_IMPORTS or found >= _MOST_FILES:
                break
        return {
            "files": found,
            "unchanged": unchanged,
            "submitted": len(imports),
            "refused": refused[:_MOST_SHOWN],
            "imports": imports[:_MOST_SHOWN],
            "complete": after is None and count < _MOST_IMPORTS,
        }

    async def _import(self, caller: Caller, account: m.Account, file: ExportFile, task_id: str) -> dict[str, Any]:
        asked = {
            "account_id": str(account.id),
            "export": file.name,
            # Below a prefix there are several files, each with a part of the bill.
            "part": (account.config.export_url or "").startswith("s3://"),
        }
        of = hashlib.sha256(f"{file.name}\n{file.version}".encode()).hexdigest()[:32]
        accepted = await self._run("cloud_account.import", caller, asked, idempotency_key=f"{task_id}-{of}")
        import_id = UUID(str(accepted.import_id))
        await self._known.keep(scope_of(caller), account.id, file.name, file.version or "", import_id)
        return {"name": file.name, "import_id": str(import_id), "task_id": str(accepted.task_id)}


def envelope_of(caller: Caller, account_id: UUID, *, key: str, everything: bool = False) -> dict[str, Any]:
    """Return the envelope of the sync of an account."""
    kind = "human" if caller.is_person else "agent" if caller.type is PrincipalType.AGENT else "service"
    return {
        "envelope_version": "1",
        "actor": {"id": caller.subject, "type": kind},
        "action": ACTION,
        "resource": {"type": "cloud_account", "id": str(account_id)},
        "matter": {"id": f"cloud-account:{account_id}"},
        "idempotency_key": f"{ACTION}:{account_id}:{key}",
        "request": {"queue_key": f"{ACTION}:{account_id}"},
        "input": {"everything": everything},
    }


def _check(account: m.Account) -> None:
    """Refuse an account that is not synced.

    Raises:
        ExportsUnreadable: it has no exports, or is disconnected.
    """
    if account.status is m.AccountStatus.DISCONNECTED:
        raise ExportsUnreadable("the account is disconnected: set its status to active", account_id=str(account.id))
    if account.config.export_url is None:
        raise ExportsUnreadable(
            "the account has no config.export_url: set one, or import files yourself", account_id=str(account.id)
        )
