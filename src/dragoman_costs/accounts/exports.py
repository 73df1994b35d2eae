"""Opens the address at which the exports of an account lie, with the credential of the account."""

from uuid import UUID

from dragoman.infra.outbound import TenantClients
from dragoman_costs.accounts.credentials import CredentialMissing, Credentials, Owner
from dragoman_costs.accounts.models import AccountConfig, CredentialStatus
from dragoman_costs.accounts.s3 import BucketSource
from dragoman_costs.accounts.secret import SecretUnreadable, WebSecret, read_aws_key, read_web_secret
from dragoman_costs.accounts.sources import ExportProblem, ExportSource
from dragoman_costs.accounts.store import KeptCredential
from dragoman_costs.accounts.web import WebFileSource


class Exports:
    """The exports of accounts. Files are read by clients of their own, because they are larger than listings."""

    def __init__(self, credentials: Credentials, *, listing: TenantClients, reading: TenantClients) -> None:
        self._credentials = credentials
        self._listing = listing
        self._reading = reading

    async def aclose(self) -> None:
        """Close what is open."""
        await self._listing.aclose()
        await self._reading.aclose()

    async def read_secret(self, owner: Owner, account_id: UUID, kept: KeptCredential) -> str | None:
        """Return the text of a credential, or None where there is none.

        Raises:
            ExportProblem: its reference leads nowhere any more.
        """
        try:
            return await self._credentials.open(owner, account_id, kept)
        except CredentialMissing as error:
            raise ExportProblem(f"the credential is missing: {error}", credential=CredentialStatus.MISSING) from None

    async def open(self, owner: Owner, account_id: UUID, config: AccountConfig, kept: KeptCredential) -> ExportSource:
        """Return the source of an account; nothing has been asked of it yet.

        Raises:
            ExportProblem: the account has no exports, or its credential cannot open them.
        """
        if config.export_url is None:
            raise ExportProblem("the account has no config.export_url: set one, or import files yourself")
        secret = await self.read_secret(owner, account_id, kept)
        clients = self._listing.of(owner.tenant), self._reading.of(owner.tenant)
        try:
            if not config.export_url.startswith("s3://"):
                return WebFileSource(clients, config, read_web_secret(secret) if secret else WebSecret())
            if secret is None:
                raise ExportProblem("s3:// needs a credential", credential=CredentialStatus.MISSING)
            return BucketSource(clients, config, read_aws_key(secret))
        except SecretUnreadable as error:
            raise ExportProblem(str(error), credential=CredentialStatus.ERROR) from None
