"""Tells those who wait that an approval is no longer pending."""

from uuid import UUID

import structlog

from dragoman.services.approvals.ports import Decided

_LOG = structlog.get_logger(__name__)


class Outcomes:
    """Whoever waits in this process."""

    def __init__(self) -> None:
        self._listeners: list[Decided] = []

    def tell(self, listener: Decided) -> None:
        """Let somebody hear of every outcome from now on."""
        self._listeners.append(listener)

    async def announce(self, tenant: UUID, approval_id: UUID) -> None:
        """Tell all; one who cannot hear it does not keep it from the others."""
        for listener in self._listeners:
            try:
                await listener(tenant, str(approval_id))
            except Exception:  # noqa: BLE001 - an edge: it is committed, whatever a listener makes of it
                _LOG.exception("approval.not_told", approval_id=str(approval_id))
