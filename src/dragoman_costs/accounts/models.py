"""Cloud accounts as they are given, and as they are shown: a credential goes in and never comes out."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, model_validator

from dragoman.operations import Input, ListInput, Output
from dragoman.text import Name
from dragoman_costs.accounts.addresses import check_endpoint, check_export_url
from dragoman_costs.accounts.identifiers import Provider, read_identifier

ExportUrl = Annotated[str, StringConstraints(min_length=6, max_length=2000), AfterValidator(check_export_url)]
Endpoint = Annotated[str, StringConstraints(min_length=8, max_length=500), AfterValidator(check_endpoint)]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$")]


class AccountStatus(StrEnum):
    """Whether an account is synced: `active` and `pending_verification` are, `error` is tried again."""

    ACTIVE = "active"
    DISCONNECTED = "disconnected"
    ERROR = "error"
    PENDING_VERIFICATION = "pending_verification"


class CredentialStatus(StrEnum):
    """What is known of a credential. It is `unverified` until `test` or `sync` has used it."""

    VALID = "valid"
    EXPIRED = "expired"
    ERROR = "error"
    MISSING = "missing"
    UNVERIFIED = "unverified"


class CredentialKind(StrEnum):
    """Where a credential is kept."""

    NONE = "none"
    ENVIRONMENT = "environment"
    FILE = "file"
    SEALED = "sealed"


class NewCredential(Input):
    """A credential by reference, or the secret itself, which is sealed and never shown. Give exactly one."""

    environment: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="An environment variable of the server. Its name begins with the prefix of the tenant.",
        examples=["CLOUD_DEMO__AWS"],
    )
    file: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="A file of the server, relative to the directory of the tenant.",
        examples=["aws.json"],
    )
    secret: Annotated[SecretStr, Field(min_length=1, max_length=10_000)] | None = Field(
        None,
        description='For s3:// `{"access_key_id": ..., "secret_access_key": ..., "session_token": ...}`; for https:// '
        '`{"bearer_token": ...}`, or `{"query": ...}` with the query string of a signed address.',
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(value is not None for value in (self.environment, self.file, self.secret)) != 1:
            raise ValueError("give exactly one of environment, file and secret")
        return self

    @property
    def kind(self) -> CredentialKind:
        """Where it is kept."""
        if self.secret is not None:
            return CredentialKind.SEALED
        return CredentialKind.FILE if self.file is not None else CredentialKind.ENVIRONMENT

    @property
    def reference(self) -> str | None:
        """The name of a variable, or the path of a file."""
        return self.environment or self.file


class AccountConfig(Input):
    """Where billing exports lie. Nothing in here is secret."""

    export_url: ExportUrl | None = Field(
        None,
        description="One file by https://, or all exports below s3://bucket/prefix. Without it, import files yourself.",
        examples=["s3://acme-billing/focus/"],
    )
    endpoint: Endpoint | None = Field(
        None,
        description="The address of a store that speaks the protocol of S3; buckets are addressed by path there.",
        examples=["https://minio.example.com"],
    )
    region: Region | None = Field(None, description="The region of the bucket; us-east-1 if it is left out.")

    @model_validator(mode="after")
    def _of_a_bucket(self) -> Self:
        if (self.endpoint or self.region) and not (self.export_url or "").startswith("s3://"):
            raise ValueError("endpoint and region belong to an export_url that begins with s3://")
        return self


class CreateAccount(Input):
    """A cloud account to import costs of."""

    provider: Provider
    identifier: str = Field(
        min_length=1,
        max_length=200,
        description="As the provider names it: AWS account, Azure subscription, Google Cloud project or billing "
        "account, Kubernetes cluster.",
        examples=["123456789012"],
    )
    name: Name = Field(description="What people call it.", examples=["Production"])
    config: AccountConfig = Field(default_factory=lambda: AccountConfig.model_validate({}))
    credential: NewCredential | None = None

    @model_validator(mode="after")
    def _identified(self) -> Self:
        read_identifier(self.provider, self.identifier)
        return self


class AccountRef(Input):
    """One cloud account of the caller's tenant."""

    account_id: UUID = Field(description="The id of the account in this server.")


class ListAccounts(ListInput):
    """Some cloud accounts, newest first."""

    provider: Provider | None = Field(None, description="Only those of this provider.")
    status: AccountStatus | None = Field(None, description="Only those in this state.")


class UpdateAccount(AccountRef):
    """What to change; what is left out stays. Provider and identifier cannot change: create another account."""

    name: Name | None = None
    status: Literal["active", "disconnected"] | None = Field(
        None, description="`disconnected` ends syncing and keeps what was imported; `active` begins it again."
    )
    config: AccountConfig | None = Field(None, description="Replaces the whole of it.")
    credential: NewCredential | None = Field(
        None, description="Replaces the old one. Required again when the exports move to another host."
    )
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="Refuse when the account has moved on from this version."
    )


class Account(Output):
    """A cloud account."""

    id: UUID
    provider: Provider
    identifier: str
    name: str
    status: AccountStatus
    config: AccountConfig
    credential_kind: CredentialKind
    credential_ref: str | None = Field(description="The variable or the file that holds the credential.")
    credential_status: CredentialStatus
    synthetic: bool = Field(description="Whether its costs were made up by the demo.")
    last_sync_at: datetime | None
    last_error: str | None = Field(description="Why the last test or sync failed.")
    version: int
    created_by: str
    created_at: datetime
    updated_at: datetime


class SyncAccount(AccountRef):
    """Look for new and changed exports of an account."""

    everything: bool = Field(default=False, description="Import files that have not changed, too.")


class PerformSync(Input):
    """The input of the task of a sync."""

    everything: bool = False


class SyncAccepted(Output):
    """A sync that was handed over as a task."""

    account_id: UUID
    task_id: UUID
    state: str = Field(description="The state of the task.")


class CheckName(StrEnum):
    """What a test looks at."""

    CREDENTIAL = "credential"
    EXPORTS = "exports"


class Check(Output):
    """One thing that a test looked at."""

    name: CheckName
    passed: bool
    message: str = Field(description="What was found, or what is wrong and what to do.")


class TestedAccount(Account):
    """An account after a test; the test ends with the first check that fails."""

    __test__ = False

    passed: bool
    checks: list[Check]


class DeletedAccount(Output):
    """An account that is gone, with what was imported for it."""

    id: UUID
