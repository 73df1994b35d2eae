"""The provider that needs nobody else: people sign here as themselves, and an organisation can seal what it sends."""

from datetime import UTC, datetime

from dragoman.context import TenantId
from dragoman.services.signatures.certificates import CertificateAuthority, Holder
from dragoman.services.signatures.models import SignerRole, VerifiedBy
from dragoman.services.signatures.ports import Impression, News, Order, Sent
from dragoman.services.signatures.press import Mark, Press
from dragoman.services.signatures.states import Status


class EmbeddedProvider:
    """Asks nobody by itself: the signers find what waits for them here, and sign with `signature.sign`."""

    repeatable = True

    def __init__(self, authority: CertificateAuthority, press: Press) -> None:
        self._authority = authority
        self._press = press

    async def draft(self, order: Order, key: str) -> str:  # noqa: ARG002 - for providers that stand elsewhere
        """Nobody else has to be told."""
        return key

    async def find_draft(self, key: str) -> str | None:
        """Drafts are kept here alone."""
        return key

    async def send(self, order: Order, ref: str) -> Sent:  # noqa: ARG002 - for providers that stand elsewhere
        """Open it to the signers; with a seal, the organisation's own goes first."""
        if not order.seal:
            return Sent(Status.SENT)
        sealed = await self.impress(
            order.document.content,
            Holder(order.organisation),
            reason="Sealed by the organisation",
            tenant=order.tenant,
            organisation=order.organisation,
        )
        signs = any(one.role is SignerRole.SIGNER for one in order.signers)
        return Sent(Status.SENT if signs else Status.COMPLETED, sealed)

    async def ask(self, ref: str) -> News | None:  # noqa: ARG002 - for providers that stand elsewhere
        """What is stored is true."""
        return None

    async def void(self, ref: str, reason: str) -> None:
        """Nobody else has to be told."""

    async def fetch(self, ref: str) -> bytes:
        """Nothing is kept elsewhere."""
        raise LookupError(ref)

    async def impress(
        self, pdf: bytes, holder: Holder, *, reason: str, tenant: TenantId, organisation: str
    ) -> Impression:
        """One more signature, with a key that is made for it and forgotten."""
        at = datetime.now(UTC).replace(microsecond=0)
        identity = self._authority.of_tenant(tenant, organisation).issue(holder, at=at)
        how = " (by link)" if holder.verified_by is VerifiedBy.LINK else ""
        text = f"{holder.name}\n{holder.email or 'electronic seal'}\n{at:%Y-%m-%d %H:%M:%S} UTC{how}"
        signed = await self._press.sign(pdf, identity, Mark(holder.name, reason, text), tenant=tenant)
        return Impression(signed, identity.fingerprint, at)
