"""Tries the credential and the exports of an account, says what is wrong, and notes it with the account."""

from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.infra.db import scope_of
from dragoman_costs.accounts import models as m
from dragoman_costs.accounts.credentials import owner_of
from dragoman_costs.accounts.exports import Exports
from dragoman_costs.accounts.service import kept_credential
from dragoman_costs.accounts.sources import ExportProblem
from dragoman_costs.accounts.store import AccountStore, Record, Verdict


def verdict_of(account: m.Account, problem: ExportProblem | None, *, asked: bool = True) -> Verdict:
    """Return what a problem, or none, says of an account; `asked` is whether its credential was used at all."""
    status = m.AccountStatus.ACTIVE if problem is None else m.AccountStatus.ERROR
    if account.status is m.AccountStatus.DISCONNECTED:
        status = account.status
    credential = account.credential_status
    if problem is not None:
        credential = problem.credential or credential
    elif account.credential_kind is not m.CredentialKind.NONE:
        credential = m.CredentialStatus.VALID if asked else m.CredentialStatus.UNVERIFIED
    return Verdict(status.value, credential.value, problem.message[:500] if problem is not None else None)


class AccountCheck:
    """Tests accounts."""

    def __init__(self, store: AccountStore, exports: Exports) -> None:
        self._store = store
        self._exports = exports

    async def test(self, caller: Caller, ref: m.AccountRef) -> m.TestedAccount:
        """Return what works of an account and what does not; its status says so from now on.

        Raises:
            NotFound: the tenant has no such account.
        """
        row = await self._store.find(scope_of(caller), ref.account_id)
        if row is None:
            raise NotFound("cloud account", ref.account_id)
        account = m.Account.model_validate(row)
        checks: list[m.Check] = []
        problem: ExportProblem | None = None
        try:
            await self._check(caller, account, row, checks)
        except ExportProblem as error:
            problem = error
            name = m.CheckName.EXPORTS if checks else m.CheckName.CREDENTIAL
            checks.append(m.Check(name=name, passed=False, message=error.message))
        verdict = verdict_of(account, problem, asked=account.config.export_url is not None)
        # None when it was changed meanwhile: what was found is about how it was.
        noted = await self._store.note(scope_of(caller), account.id, account.version, verdict) or row
        return m.TestedAccount.model_validate({**noted, "passed": problem is None, "checks": checks})

    async def _check(self, caller: Caller, account: m.Account, row: Record, checks: list[m.Check]) -> None:
        """Add each check that passed.

        Raises:
            ExportProblem: of the first that failed.
        """
        owner, kept = owner_of(caller), kept_credential(row)
        secret = await self._exports.read_secret(owner, account.id, kept)
        found = "there is none" if secret is None else f"found ({account.credential_ref or 'sealed'})"
        checks.append(m.Check(name=m.CheckName.CREDENTIAL, passed=True, message=found))
        if account.config.export_url is None:
            return
        source = await self._exports.open(owner, account.id, account.config, kept)
        files, after = await source.list_page(None)
        count = f"{len(files)} or more" if after is not None else str(len(files))
        checks.append(m.Check(name=m.CheckName.EXPORTS, passed=True, message=f"reached: {count} files"))
