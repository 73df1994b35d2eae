"""Which providers a tenant signs by: configured by its administrators, opened for whoever needs them."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol
from uuid import UUID

import orjson
from pydantic import SecretStr

from dragoman.context import Caller
from dragoman.errors import NotFound
from dragoman.infra.auth.vault import Vault
from dragoman.infra.db import Scope, scope_of
from dragoman.infra.outbound import TenantClients
from dragoman.services.signatures import documenso, docusign
from dragoman.services.signatures import models as m
from dragoman.services.signatures.certificates import CertificateAuthority
from dragoman.services.signatures.embedded import EmbeddedProvider
from dragoman.services.signatures.errors import NoSigningProvider
from dragoman.services.signatures.line import Line
from dragoman.services.signatures.ports import Event, SigningProvider
from dragoman.services.signatures.store_providers import Configuration, ProviderStore, place_of

WEBHOOKS: Final = "/api/webhooks"


class Dialect(Protocol):
    """How a provider speaks in its webhooks."""

    def authentic(self, keys: list[str], headers: Mapping[str, str], body: bytes) -> bool:
        """Whether it is from the provider."""
        ...

    def read_event(self, body: bytes) -> Event | None:
        """What it says; None when it is of no concern.

        Raises:
            ValueError: it cannot be read.
        """
        ...


_DIALECTS: Final[dict[str, Dialect]] = {"docusign": docusign, "documenso": documenso}


class Providers:
    """The embedded one, and those that the tenant has configured."""

    def __init__(
        self,
        store: ProviderStore,
        embedded: EmbeddedProvider,
        *,
        vault: Vault,
        clients: TenantClients,
        authority: CertificateAuthority,
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._embedded = embedded
        self._vault = vault
        self._clients = clients
        self._authority = authority
        self._new_id = new_id
        self._tokens = docusign.Tokens()

    async def configure(self, caller: Caller, given: m.ConfigureProvider) -> m.ProviderView:
        """Let the tenant sign by a provider.

        Raises:
            OutboundRefused: its address must not be reached.
            InvalidInput: the private key is none.
        """
        await self._clients.guard.check(given.base_url)
        if (grant := _grant(given.credential)) is not None:
            await self._clients.guard.check(grant.auth_url)
            grant.assertion(now_s=0)
        secret = orjson.dumps(
            {
                "credential": {name: _revealed(value) for name, value in given.credential if value is not None},
                "webhook_keys": [_revealed(key) for key in given.webhook_keys],
            }
        )
        new = Configuration(
            tenant_id=caller.tenant,
            id=self._new_id(),
            provider=given.provider.value,
            base_url=given.base_url,
            account_id=given.account_id,
            secret=self._vault.seal(secret, place=place_of(caller.tenant, given.provider.value)),
            webhook_keys=len(given.webhook_keys),
            updated_at=None,
        )
        return _view(await self._store.put(scope_of(caller), new, updated_by=caller.subject))

    async def remove(self, caller: Caller, ref: m.ProviderRef) -> m.Forgotten:
        """Forget a provider with its credentials; requests that are out there stay as they are.

        Raises:
            NotFound: it is not configured.
        """
        if not await self._store.remove(scope_of(caller), ref.provider.value):
            raise NotFound("provider", ref.provider.value)
        return m.Forgotten(provider=ref.provider)

    async def open(self, caller: Caller, provider: m.Provider) -> SigningProvider:
        """A provider, ready to be asked.

        Raises:
            NoSigningProvider: the tenant has not configured it.
        """
        if provider is m.Provider.EMBEDDED:
            return self._embedded
        found = await self._store.find(scope_of(caller), provider.value)
        if found is None:
            raise NoSigningProvider(provider.value)
        return self._opened(found)

    async def find_authentic(
        self, tenant: UUID, configuration_id: UUID, headers: Mapping[str, str], body: bytes
    ) -> Configuration | None:
        """The configuration that a webhook is for; None when there is none, or the webhook is not from there."""
        found = await self._store.get(Scope(tenant), configuration_id)
        if found is None:
            return None
        _, keys = self._secrets(found)
        return found if _DIALECTS[found.provider].authentic(keys, headers, body) else None

    def read_event(self, provider: str, body: bytes) -> Event | None:
        """What a webhook says; None when it is of no concern.

        Raises:
            ValueError: it cannot be read.
        """
        return _DIALECTS[provider].read_event(body)

    def _opened(self, found: Configuration) -> SigningProvider:
        credential, _ = self._secrets(found)
        client = self._clients.of(found.tenant_id)
        line = Line(client, found.provider, found.base_url)
        token = _revealed(credential.access_token)
        if found.provider == m.RemoteProvider.DOCUMENSO:
            return documenso.Documenso(line, token or "")
        granted = None
        if token is None and (grant := _grant(credential)) is not None:
            name = f"{found.id}/{found.updated_at}"
            granted = docusign.GrantedToken(self._tokens, name, Line(client, found.provider, grant.auth_url), grant)
        return docusign.DocuSign(line, found.account_id or "", access_token=token, grant=granted)

    def _secrets(self, found: Configuration) -> tuple[m.Credential, list[str]]:
        opened = orjson.loads(self._vault.open(found.secret, place=found.place))
        return m.Credential.model_validate(opened["credential"]), opened["webhook_keys"]

    async def list(self, caller: Caller, wanted: m.ListProviders) -> m.ProviderList:  # noqa: ARG002 - an operation
        """What the tenant can sign by."""
        embedded = m.ProviderView(
            provider=m.Provider.EMBEDDED,
            authority=self._authority.pem,
            tenant_authority=self._authority.of_tenant(caller.tenant, caller.tenant_slug).pem,
        )
        return m.ProviderList(providers=[embedded, *map(_view, await self._store.list(scope_of(caller)))])


def _grant(credential: m.Credential) -> docusign.Grant | None:
    given = (credential.integration_key, credential.user_id, credential.private_key, credential.auth_url)
    if credential.access_token is not None or None in given:
        return None
    integration_key, user_id, private_key, auth_url = (_revealed(one) or "" for one in given)
    return docusign.Grant(integration_key, user_id, private_key, auth_url)


def _revealed(value: SecretStr | str | None) -> str | None:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _view(found: Configuration) -> m.ProviderView:
    return m.ProviderView(
        provider=m.Provider(found.provider),
        id=found.id,
        base_url=found.base_url,
        account_id=found.account_id,
        webhook_path=f"{WEBHOOKS}/{found.provider}/{found.id}",
        webhook_keys=found.webhook_keys,
        updated_at=found.updated_at,
    )
