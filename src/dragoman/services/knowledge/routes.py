"""Where a remote is, taken apart once: what is judged is what is connected to."""

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from dragoman.errors import InvalidInput

Scheme = Literal["https", "ssh", "file"]
_SSH: Final = re.compile(
    r"ssh://(?:(?P<user>[\w.-]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/[\w./~%+-]+)"
)
_SCP: Final = re.compile(r"(?:(?P<user>[\w.-]+)@)?(?P<host>[\w.-]+):(?!//)(?P<path>[\w./~+-]+)")
_SSH_PORT: Final = 22


@dataclass(frozen=True, slots=True)
class RemoteKey:
    """What lets this server in at one remote: a name with a token, or a private key and the keys of the host."""

    username: str = ""
    token: str = field(default="", repr=False)
    private_key: str | None = field(default=None, repr=False)
    host_keys: tuple[str, ...] = ()

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "RemoteKey":
        """Return the key that `written` wrote."""
        values: dict[str, Any] = stored | {"host_keys": tuple(stored["host_keys"])}
        return cls(**values)

    def written(self) -> dict[str, Any]:
        """Return what is sealed, and what another process reads."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Route:
    """A remote, and the addresses that were judged for its host; a path of this machine has none."""

    remote: str
    scheme: Scheme
    host: str = ""
    port: int = 0
    user: str = "git"
    path: str = ""
    addresses: tuple[str, ...] = ()

    @classmethod
    def of(cls, remote: str) -> "Route":
        """Take a remote apart.

        Raises:
            InvalidInput: it is no address of a repository.
        """
        if remote.startswith("https://"):
            return cls(remote, "https")
        if remote.startswith(("/", "file://")):
            return cls(remote, "file")
        found = _SSH.fullmatch(remote) or _SCP.fullmatch(remote)
        if found is None:
            raise InvalidInput.of("remote", "must be https://..., ssh://... or git@host:path")
        parts = found.groupdict()
        port = int(parts.get("port") or _SSH_PORT)
        return cls(remote, "ssh", parts["host"].strip("[]"), port, parts["user"] or "git", parts["path"])

    @classmethod
    def read(cls, stored: dict[str, Any]) -> "Route":
        """Return the route that `written` wrote."""
        values: dict[str, Any] = stored | {"addresses": tuple(stored["addresses"])}
        return cls(**values)

    def written(self) -> dict[str, Any]:
        """Return what another process reads."""
        return asdict(self)

    @property
    def judged_url(self) -> str:
        """The address that the guard of outgoing requests judges for it."""
        if self.scheme == "https":
            return self.remote
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}/"

    def url_by(self, port: int) -> str:
        """Return the address for git when the connection goes by a port of this machine.

        HTTPS keeps its own, because TLS checks the name in it and the port is given as a proxy.
        """
        if self.scheme != "ssh":
            return self.remote
        if self.path.startswith("/"):
            return f"ssh://{self.user}@127.0.0.1:{port}{self.path}"
        # Relative to the home of the user there, as only this notation can say.
        return f"[{self.user}@127.0.0.1:{port}]:{self.path}"
