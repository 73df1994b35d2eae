"""Requests to addresses that others chose: guarded, so that nobody can make this server knock on its own doors."""

from dragoman.infra.outbound.addresses import Address, Allowed, OutboundRefused, Target, read_target
from dragoman.infra.outbound.clients import Clients, TenantClients, Upstream
from dragoman.infra.outbound.guard import Guard, NotResolved, resolving_for

__all__ = [
    "Address",
    "Allowed",
    "Clients",
    "Guard",
    "NotResolved",
    "OutboundRefused",
    "Target",
    "TenantClients",
    "Upstream",
    "read_target",
    "resolving_for",
]
