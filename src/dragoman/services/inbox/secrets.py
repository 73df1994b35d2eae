"""The secrets of a source: several are live at once while its sender is being changed, all sealed as one."""

import base64
import binascii
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import orjson

from dragoman.errors import InvalidInput
from dragoman.infra.auth.vault import Vault
from dragoman.infra.outbound.signing import SECRET_PREFIX, new_signing_secret, signing_key
from dragoman.services.inbox.models import LiveSecret
from dragoman.services.inbox.store_sources import place_of

_HINT: Final = 4
# Each is tried on every webhook.
MOST_LIVE: Final = 5


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, as both sides have it; the newest has no end."""

    text: str = field(repr=False)
    until: float | None = None

    @property
    def key(self) -> bytes:
        """The key of Standard Webhooks."""
        return signing_key(self.text)

    @property
    def live(self) -> bool:
        """Whether it is accepted now."""
        return self.until is None or self.until > time.time()

    def shown(self) -> LiveSecret:
        """Return what may be shown of it."""
        until = datetime.fromtimestamp(self.until, UTC) if self.until is not None else None
        return LiveSecret(hint=f"...{self.text[-_HINT:]}", until=until)


def make_secret() -> Secret:
    """Return a new secret in the form of Standard Webhooks."""
    return Secret(new_signing_secret())


def read_secret(text: str) -> Secret:
    """Return a secret that somebody chose.

    Raises:
        InvalidInput: it cannot be one.
    """
    if not text.isascii() or not text.isprintable():
        raise InvalidInput.of("secret", "must be printable ASCII text")
    try:
        if text.startswith(SECRET_PREFIX):
            base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise InvalidInput.of("secret", f"must be base64 after {SECRET_PREFIX}") from None
    return Secret(text)


def superseded(live: Sequence[Secret], newest: Secret, *, grace_s: int) -> list[Secret]:
    """Return the secrets of a source with a new one; those before it end after the grace, or earlier."""
    end = time.time() + grace_s
    before = [replace(one, until=min(one.until or end, end)) for one in live]
    return [newest, *(one for one in before if one.live)][:MOST_LIVE]


class SecretBox:
    """Seals the secrets of sources."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def seal(self, tenant: UUID, source_id: UUID, held: Sequence[Secret]) -> bytes:
        """Return what to store."""
        plain = orjson.dumps([{"text": one.text, "until": one.until} for one in held])
        return self._vault.seal(plain, place=place_of(tenant, source_id))

    def open(self, tenant: UUID, source_id: UUID, sealed: bytes) -> list[Secret]:
        """Return those that are accepted now, newest first."""
        opened = orjson.loads(self._vault.open(sealed, place=place_of(tenant, source_id)))
        return [one for one in (Secret(**kept) for kept in opened) if one.live]
