"""Credentials of cloud accounts: which references a tenant may use, and what they refer to.

The rule for references stands here alone. A server has secrets of its own in its environment and its files, and those
of other tenants; so a tenant names only variables and files that the operator has put under the tenant's own name:

    CLOUD_ACME__AWS              the variable of the tenant `acme`: the prefix, its slug, two underscores, a name
    <directory>/acme/aws.json    the file `aws.json` of the tenant `acme`
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from dragoman.blocking import Threads
from dragoman.context import Caller
from dragoman.errors import InvalidInput
from dragoman.infra.auth.vault import Vault
from dragoman_costs.accounts.models import CredentialKind, NewCredential
from dragoman_costs.accounts.store import NO_CREDENTIAL, KeptCredential

MOST_BYTES: Final = 16_384
# No two underscores in a row and none at the edges: of `CLOUD_A__B__C` only the last part can be the name, so that the
# variable is that of one tenant alone.
_NAME: Final = re.compile(r"[A-Z0-9]+(_[A-Z0-9]+)*")
_PART: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_MOST_PARTS: Final = 5


class CredentialMissing(Exception):
    """There is nothing at a reference; the message may be shown to the tenant."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The tenant that a reference belongs to."""

    tenant: UUID
    slug: str


def owner_of(caller: Caller) -> Owner:
    """Return the tenant of a caller."""
    return Owner(caller.tenant, caller.tenant_slug)


class Credentials:
    """Checks, seals and reads the credentials of accounts."""

    def __init__(
        self, vault: Vault, *, env_prefix: str, directory: Path | None, environment: Callable[[], Mapping[str, str]]
    ) -> None:
        self._vault = vault
        self._env_prefix = env_prefix
        self._directory = directory
        self._environment = environment
        self._threads = Threads("credentials", 2, share=1)

    async def check(self, owner: Owner, given: NewCredential) -> None:
        """Check that a tenant may use a reference and that there is something at it; a secret needs no check.

        Raises:
            InvalidInput: the reference is not allowed, or leads nowhere.
        """
        field = f"credential.{given.kind.value}"
        try:
            if given.reference is not None:
                await self._read(owner, given.kind, given.reference)
        except (ValueError, CredentialMissing) as error:
            raise InvalidInput.of(field, str(error)) from None

    def keep(self, owner: Owner, account_id: UUID, given: NewCredential | None) -> KeptCredential:
        """Return what is stored of a credential."""
        if given is None:
            return NO_CREDENTIAL
        if given.secret is None:
            return KeptCredential(given.kind.value, given.reference)
        plain = given.secret.get_secret_value().encode()
        return KeptCredential(given.kind.value, sealed=self._vault.seal(plain, place=_place(owner, account_id)))

    async def open(self, owner: Owner, account_id: UUID, kept: KeptCredential) -> str | None:
        """Return the text of a credential, or None where an account has none.

        Raises:
            CredentialMissing: the reference leads nowhere any more, or the tenant may no longer use it.
        """
        kind = CredentialKind(kept.kind)
        if kind is CredentialKind.NONE:
            return None
        try:
            if kind is CredentialKind.SEALED:
                return self._vault.open(kept.sealed or b"", place=_place(owner, account_id)).decode()
            return await self._read(owner, kind, kept.reference or "")
        except ValueError as error:
            raise CredentialMissing(str(error)) from None

    async def _read(self, owner: Owner, kind: CredentialKind, reference: str) -> str:
        """Read what is at a reference.

        Raises:
            ValueError: the tenant may not use it.
            CredentialMissing: there is nothing.
        """
        if kind is CredentialKind.ENVIRONMENT:
            return self._read_variable(owner, reference)
        parts = self._check_path(reference)
        if self._directory is None:
            raise ValueError("the server has no directory for credentials (DRAGOMAN_COSTS__CREDENTIALS_DIR)")
        return await self._threads.run(owner.tenant, _read_file, self._directory, (owner.slug, *parts))

    def _read_variable(self, owner: Owner, name: str) -> str:
        prefix = f"{self._env_prefix}{owner.slug.upper().replace('-', '_')}__"
        if not self._env_prefix:
            raise ValueError("the server gives no environment variables to tenants (DRAGOMAN_COSTS__ENV_PREFIX)")
        if not name.startswith(prefix) or _NAME.fullmatch(name[len(prefix) :]) is None:
            raise ValueError(f"must be {prefix} and a name of A-Z, 0-9 and single underscores, such as {prefix}AWS")
        value = self._environment().get(name, "")
        if not value:
            raise CredentialMissing(f"the variable {name} is not set on the server")
        return value

    def _check_path(self, path: str) -> tuple[str, ...]:
        parts = tuple(path.split("/"))
        if len(parts) > _MOST_PARTS or not all(map(_PART.fullmatch, parts)):
            raise ValueError("must be a path below the directory of the tenant, such as aws.json, without .. and links")
        return parts


def _read_file(directory: Path, parts: tuple[str, ...]) -> str:
    """Read a file, opening one part of its path after the other, so that no link leads out of the directory."""
    name = "/".join(parts[1:])
    with ExitStack() as opened:

        def enter(part: str, flags: int, at: int | None) -> int:
            found = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags, dir_fd=at)
            opened.callback(os.close, found)
            return found

        try:
            here = enter(str(directory), os.O_DIRECTORY, None)
            for part in parts[:-1]:
                here = enter(part, os.O_DIRECTORY | os.O_NOFOLLOW, here)
            file = enter(parts[-1], os.O_NOFOLLOW, here)
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise CredentialMissing(f"{name} is not a file")
            text = os.read(file, MOST_BYTES + 1)
        except OSError as error:
            # A link says ELOOP or ENOTDIR; what it leads to is not told.
            raise CredentialMissing(f"the file {name} cannot be read: {os.strerror(error.errno or 0)}") from None
    if not text.strip() or len(text) > MOST_BYTES:
        raise CredentialMissing(f"the file {name} is empty, or larger than {MOST_BYTES} bytes")
    try:
        return text.decode().strip()
    except UnicodeDecodeError:
        raise CredentialMissing(f"the file {name} is not text in UTF-8") from None


def _place(owner: Owner, account_id: UUID) -> str:
    """Return the place that the secret of an account is sealed for."""
    return f"costs/{owner.tenant}/{account_id}"
