"""What lets this server in at the private remotes of a tenant: sealed, for one remote each, and never shown again."""

from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import UUID

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
    ssh_key_fingerprint,
)

from dragoman.context import Caller
from dragoman.errors import Conflict, InvalidInput, NotFound
from dragoman.infra.auth.vault import Vault
from dragoman.infra.db import scope_of
from dragoman.operations import Page
from dragoman.services.knowledge import models as m
from dragoman.services.knowledge.errors import RemoteUnavailable
from dragoman.services.knowledge.routes import RemoteKey, Route
from dragoman.services.knowledge.store_remotes import Connection, RemoteStore, place_of
from dragoman.services.knowledge.sync import RemoteRules

MOST: Final = 100
_USER: Final = "git"


class RemoteConnections:
    """Keeps the credentials of remotes, and gives them to a sync of exactly that remote."""

    def __init__(self, store: RemoteStore, rules: RemoteRules, vault: Vault, *, new_id: Callable[[], UUID]) -> None:
        self._store = store
        self._rules = rules
        self._vault = vault
        self._new_id = new_id

    async def check_new(self, caller: Caller, new: m.ConnectRemote) -> m.ConnectRemote:
        """Check the remote before anything is written. A name that leads nowhere today is let through.

        Raises:
            InvalidInput: it is no address of a repository.
            OutboundRefused: its host may not be reached.
        """
        del caller
        with suppress(RemoteUnavailable):
            await self._rules.route(new.remote)
        return new

    async def connect(self, caller: Caller, new: m.ConnectRemote) -> m.RemoteConnection:
        """Store the credentials of a remote in place of earlier ones.

        Raises:
            InvalidInput: the credentials are of another kind than the remote needs, or cannot be read.
            Conflict: the tenant has as many as it may have.
        """
        key, public_key = _read(new)
        stored = await self._store.put(
            scope_of(caller),
            Connection(
                id=self._new_id(),
                remote=new.remote,
                kind=(m.ConnectionKind.TOKEN if new.token is not None else m.ConnectionKind.SSH_KEY).value,
                username=key.username,
                public_key=public_key,
                host_keys=[_fingerprint(each) for each in key.host_keys],
                secret=self._vault.seal(orjson.dumps(key.written()), place=place_of(caller.tenant, new.remote)),
                updated_by=caller.subject,
            ),
            most=MOST,
        )
        if stored is None:
            raise Conflict(f"a tenant has credentials for {MOST} remotes at most; disconnect one", limit=MOST)
        return _view(stored)

    async def list(self, caller: Caller, query: m.ListConnections) -> Page[m.RemoteConnection]:
        """List the remotes that have credentials."""
        del query
        return Page(items=[_view(each) for each in await self._store.list(scope_of(caller))])

    async def disconnect(self, caller: Caller, ref: m.ConnectionRef) -> m.RemoteConnection:
        """Remove the credentials of a remote.

        Raises:
            NotFound: the tenant has no such connection.
        """
        removed = await self._store.remove(scope_of(caller), ref.connection_id)
        if removed is None:
            raise NotFound("connection", ref.connection_id)
        return _view(removed)

    async def find(self, caller: Caller, remote: str) -> RemoteKey | None:
        """Return the credentials of exactly this remote, if there are any."""
        stored = await self._store.find(scope_of(caller), remote)
        if stored is None:
            return None
        opened = self._vault.open(stored.secret, place=place_of(caller.tenant, remote))
        return RemoteKey.read(orjson.loads(opened))


def _read(new: m.ConnectRemote) -> tuple[RemoteKey, str | None]:
    """Return what is sealed, and the public half of a private key."""
    scheme = Route.of(new.remote).scheme
    if scheme == "https":
        if new.token is None:
            raise InvalidInput.of("token", "is needed for https://")
        return RemoteKey(username=new.username or _USER, token=new.token.get_secret_value()), None
    if scheme != "ssh":
        raise InvalidInput.of("remote", "must be https://, ssh:// or git@host:path")
    if new.private_key is None or not new.host_keys:
        raise InvalidInput.of("private_key", "and host_keys are needed for SSH")
    if new.username is not None:
        raise InvalidInput.of("username", "of SSH is part of the remote: ssh://user@host/path")
    private_key, public_key = _read_private_key(new.private_key.get_secret_value())
    host_keys = tuple(_read_host_key(line) for line in new.host_keys)
    return RemoteKey(username="", private_key=private_key, host_keys=host_keys), public_key


def _read_private_key(text: str) -> tuple[str, str]:
    """Return a private key in the format of OpenSSH, and its public half."""
    content = f"{text.strip()}\n".encode()
    try:
        load = load_ssh_private_key if b"OPENSSH" in content else load_pem_private_key
        key = load(content, None)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    except (ValueError, TypeError, AttributeError, UnsupportedAlgorithm):
        raise InvalidInput.of("private_key", "must be a private key of SSH without a passphrase") from None
    return private.decode(), public.decode()


def _read_host_key(line: str) -> str:
    """Return the type and the key of a line, which may be one of `known_hosts` or of `ssh-keyscan`."""
    words = line.split()
    for start in range(len(words) - 1):
        candidate = " ".join(words[start : start + 2])
        with suppress(ValueError, UnsupportedAlgorithm):
            load_ssh_public_key(candidate.encode())
            return candidate
    raise InvalidInput.of("host_keys", "must be like ssh-ed25519 AAAA..., as ssh-keyscan prints it")


def _fingerprint(host_key: str) -> str:
    """Return the fingerprint that SSH shows of a key."""
    digest = ssh_key_fingerprint(load_ssh_public_key(host_key.encode()), SHA256())
    return f"SHA256:{b64encode(digest).decode().rstrip('=')}"


def _view(stored: Connection) -> m.RemoteConnection:
    return m.RemoteConnection(
        id=stored.id,
        remote=stored.remote,
        kind=m.ConnectionKind(stored.kind),
        username=stored.username or None,
        public_key=stored.public_key,
        host_key_fingerprints=stored.host_keys,
        updated_by=stored.updated_by,
        updated_at=stored.updated_at,
    )
