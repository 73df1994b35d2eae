"""One attempt at one delivery: the message as it is sent, its signatures, and what the receiver answered."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import orjson

from dragoman.context import Caller
from dragoman.infra.auth.vault import Vault
from dragoman.infra.outbound import TenantClients
from dragoman.infra.outbound.posting import NotTaken, post
from dragoman.infra.outbound.signing import signed_headers
from dragoman.services.subscriptions.store_deliveries import DueDelivery
from dragoman.services.tasks.identity import read_caller
from dragoman.services.tasks.models import Json


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of an attempt: `line` is what the log of the delivery keeps, `failure` why it was not taken."""

    line: Json
    failure: NotTaken | None


class NotSendable(Exception):
    """Nothing can be sent for this subscription any more."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Sender:
    """Sends for whom may still have it sent. `find_refusal` says why a caller may not, if that is so."""

    def __init__(
        self, clients: TenantClients, vault: Vault, *, find_refusal: Callable[[Caller], Awaitable[str | None]]
    ) -> None:
        self._clients = clients
        self._vault = vault
        self._find_refusal = find_refusal

    async def send(self, delivery: DueDelivery) -> Sent:
        """Send it once.

        Raises:
            NotSendable: who made the subscription is no longer permitted, or its secret cannot be read.
            UpstreamUnavailable: whether they are cannot be found out now.
        """
        caller = read_caller(delivery.tenant_id, delivery.caller)
        if (refusal := await self._find_refusal(caller)) is not None:
            raise NotSendable(refusal)
        body, at, began = message_of(delivery), datetime.now(UTC), time.perf_counter()
        headers = {"content-type": "application/json"} | signed_headers(
            self._secrets(delivery), webhook_id=delivery.message_id, at_s=int(at.timestamp()), body=body
        )
        status: int | None = None
        failure: NotTaken | None = None
        try:
            status = await post(self._clients.of(delivery.tenant_id), delivery.url, body=body, headers=headers)
        except NotTaken as error:
            status, failure = error.status, error
        line: Json = {"at": at.isoformat(), "duration_ms": round((time.perf_counter() - began) * 1000)}
        if status is not None:
            line["status"] = status
        if failure is not None:
            line["reason"] = failure.reason
        return Sent(line, failure)

    async def close(self) -> None:
        """Close what is open."""
        await self._clients.aclose()

    def _secrets(self, delivery: DueDelivery) -> list[str]:
        place = place_of(delivery.tenant_id, delivery.subscription_id)
        sealed = [delivery.secret, *([delivery.previous_secret] if delivery.previous_secret is not None else [])]
        try:
            return [self._vault.open(secret, place=place).decode() for secret in sealed]
        except ValueError:
            raise NotSendable("its secret cannot be read: rotate it") from None


def place_of(tenant: UUID, subscription_id: UUID) -> str:
    """The one subscription that a secret is for."""
    return f"subscription/{tenant}/{subscription_id}"


def message_of(delivery: DueDelivery) -> bytes:
    """Return the body; its bytes are the same for every attempt."""
    return orjson.dumps(
        {
            "type": delivery.type,
            "timestamp": delivery.occurred_at.isoformat(),
            "subject": delivery.subject,
            "data": delivery.data,
        }
    )
