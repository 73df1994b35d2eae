"""Remote workers: opens the worker of a registration."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dragoman.infra.auth.vault import Vault
from dragoman.infra.outbound import TenantClients
from dragoman.services.workers.models import RemoteKind
from dragoman.services.workers.protocol import Capability, Worker
from dragoman.services.workers.remote_a2a import A2aWorker
from dragoman.services.workers.remote_input import input_of
from dragoman.services.workers.remote_mcp import McpWorker
from dragoman.services.workers.store import Registration

if TYPE_CHECKING:
    from dragoman.operations import Input


class RemoteWorkers:
    """Opens remote workers. A credential is unsealed for each attempt, and not stored."""

    def __init__(
        self, clients: TenantClients, vault: Vault, *, own_input: Callable[[str], "type[Input] | None"]
    ) -> None:
        self._clients = clients
        self._vault = vault
        self._own_input = own_input

    def open(self, tenant: UUID, registration: Registration) -> Worker:
        """Return the worker that a tenant registration."""

        def headers() -> dict[str, str]:
            if registration.secret is None:
                return {}
            credential = self._vault.open(registration.secret, place=registration.place(tenant)).decode()
            bearer = registration.header.lower() == "authorization"
            return {registration.header: f"Bearer {credential}" if bearer else credential}

        capabilities = tuple(self._capability(action) for action in registration.actions)
        connect = partial(self._clients.of, tenant)
        if registration.kind == RemoteKind.A2A:
            return A2aWorker(registration.name, capabilities, registration.url, headers, connect)
        check = partial(self._clients.check, tenant)
        return McpWorker(registration.name, capabilities, registration.url, headers, connect, check)

    def _capability(self, declared: dict[str, Any]) -> Capability:
        """Return the declared capability; without a schema, an action of this server has the input that it has here."""
        schema = declared.get("input_schema")
        own = self._own_input(declared["action"]) if schema is None else None
        return Capability(
            action=declared["action"],
            summary=declared["summary"],
            input=own or input_of(schema),
            version=declared["version"],
            sensitive=declared["sensitive"],
            required=False,
            timeout_s=declared["timeout_s"],
            at_once=declared["at_once"],
        )
