"""Workers outside: from what a tenant registered to something that performs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dragoman.infra.auth.vault import Vault
from dragoman.infra.outbound import Guard
from dragoman.services.workers.models import RemoteKind
from dragoman.services.workers.protocol import Capability, Worker
from dragoman.services.workers.remote_a2a import A2aWorker
from dragoman.services.workers.remote_input import input_of
from dragoman.services.workers.remote_mcp import McpWorker
from dragoman.services.workers.store import Registration

if TYPE_CHECKING:
    from dragoman.operations import Input


class RemoteWorkers:
    """Opens workers. A credential is unsealed for each piece of work and kept nowhere."""

    def __init__(self, guard: Guard, vault: Vault, *, own_input: Callable[[str], "type[Input] | None"]) -> None:
        self._guard = guard
        self._vault = vault
        self._own_input = own_input

    def open(self, tenant: UUID, registered: Registration) -> Worker:
        """The worker that a tenant registered."""

        def headers() -> dict[str, str]:
            if registered.secret is None:
                return {}
            credential = self._vault.open(registered.secret, place=registered.place(tenant)).decode()
            bearer = registered.header.lower() == "authorization"
            return {registered.header: f"Bearer {credential}" if bearer else credential}

        capabilities = tuple(self._capability(one) for one in registered.actions)
        kind = A2aWorker if registered.kind == RemoteKind.A2A else McpWorker
        return kind(registered.name, capabilities, url=registered.url, headers=headers, guard=self._guard)

    def _capability(self, declared: dict[str, Any]) -> Capability:
        """As it was declared; an action of ours takes what it takes here, unless the worker says otherwise."""
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
