"""Requests to addresses that others chose: guarded, so that nobody can make this server knock on its own doors."""

from dragoman.infra.outbound.addresses import Allowed, OutboundRefused, Target, read_target
from dragoman.infra.outbound.guard import Guard, NotResolved

__all__ = ["Allowed", "Guard", "NotResolved", "OutboundRefused", "Target", "read_target"]
