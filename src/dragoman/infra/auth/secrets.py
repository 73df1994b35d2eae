"""Random secrets that are shown once and kept only as a keyed hash."""

import hmac
import secrets
from dataclasses import dataclass
from uuid import UUID

_PREFIX = "dgm"
INVITATION_PREFIX = "inv_"
LINK_PREFIX = "lnk_"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """`dgm_<id>_<secret>`: the id finds the row, the secret proves it."""

    id: UUID
    secret: str

    @property
    def text(self) -> str:
        """As the caller presents it."""
        return f"{_PREFIX}_{self.id.hex}_{self.secret}"


def new_api_key(key_id: UUID) -> ApiKey:
    """256 random bits; nothing to guess, so a fast keyed hash is enough to store it by."""
    return ApiKey(key_id, secrets.token_hex(32))


def new_invitation() -> str:
    """A code that an invited person shows once."""
    return INVITATION_PREFIX + secrets.token_urlsafe(32)


def new_link() -> str:
    """A code that a signer without an account shows once."""
    return LINK_PREFIX + secrets.token_urlsafe(32)


def parse_api_key(text: str) -> ApiKey | None:
    """The parts of what a caller presents, or None when it cannot be one of ours."""
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    if (
        prefix != _PREFIX
        or len(key_id) != 32
        or len(secret) != 64
        or not (text.isascii() and rest.replace("_", "").isalnum())
    ):
        return None
    try:
        return ApiKey(UUID(hex=key_id), secret)
    except ValueError:
        return None


def hash_secret(secret: str, pepper: bytes) -> bytes:
    """What is stored of a secret."""
    return hmac.digest(pepper, secret.encode(), "sha256")
