"""Puts the agent gateway together: who is registered, how they are known, and their door."""

from collections.abc import Mapping
from dataclasses import dataclass

from dragoman.app.foundation import Foundation
from dragoman.app.tools import GateTools
from dragoman.context import Caller
from dragoman.doors.gateway.door import PREFIX, GatewayDoor
from dragoman.gate import Gate
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.config import Settings
from dragoman.infra.edge import AsgiScope, ClientCertificates, Entrance
from dragoman.infra.ids import new_id
from dragoman.operations import Handlers
from dragoman.plugin import installed_plugins
from dragoman.services.gateway import operations
from dragoman.services.gateway.certificates import CertificateCheck
from dragoman.services.gateway.service import GatewayService
from dragoman.services.gateway.store import GatewayStore


@dataclass(frozen=True, slots=True)
class GatewayCore:
    """The agents of others, and how the edge knows them."""

    service: GatewayService
    certificates: ClientCertificates

    @property
    def entrance(self) -> Entrance:
        """The addresses of the gateway with their own credentials."""
        return Entrance(PREFIX, self._authenticate)

    async def _authenticate(self, scope: AsgiScope, headers: Mapping[bytes, str]) -> Caller:
        return await self.service.authenticate(self.certificates.find(scope, headers), headers.get(b"x-api-key"))


def build_gateway(settings: Settings, handlers: Handlers, base: Foundation, keyring: Keyring) -> GatewayCore:
    """Build the registry of agents, its operations bound."""
    check = CertificateCheck(settings.tls_client_ca, settings.gateway.crl)
    service = GatewayService(GatewayStore(base.db), check, pepper=keyring.pepper, new_id=new_id)
    handlers.add(operations.REGISTER, service.register)
    handlers.add(operations.LIST, service.list)
    handlers.add(operations.GET, service.get)
    handlers.add(operations.UPDATE, service.update)
    handlers.add(operations.ROTATE, service.rotate)
    handlers.add(operations.SUSPEND, service.suspend)
    handlers.add(operations.RESUME, service.resume)
    handlers.add(operations.REMOVE, service.remove)
    certificates = ClientCertificates(header=settings.gateway.cert_header, proxies=settings.trusted_proxies)
    return GatewayCore(service, certificates)


def build_gateway_door(settings: Settings, gate: Gate, tools: GateTools, base: Foundation) -> GatewayDoor:
    """Build the door; a bare `query` is the operation that a plugin names for it."""
    default = next((plugin.query for plugin in installed_plugins() if plugin.query), "")
    return GatewayDoor(
        gate,
        tools,
        base.authority.permits,
        default=default.replace(".", "_"),
        per_min=settings.limits.agent_per_min,
    )
