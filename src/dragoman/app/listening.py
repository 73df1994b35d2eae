"""The ports: had by the process that starts, shared by those that serve."""

import socket
from importlib.util import find_spec
from typing import Final

import structlog

from dragoman.infra.config import ConfigError, Settings

_LOG = structlog.get_logger(__name__)
_NEEDED_BY_GRPC: Final = ("grpc", "a2a")
_WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened on


class ListenError(Exception):
    """The address cannot be had; the message says which and why."""


def listen(settings: Settings) -> socket.socket:
    """The socket of HTTP.

    Raises:
        ListenError: the port belongs to another.
    """
    try:
        listener = _bind(settings.host, settings.port, share=False)
    except OSError as error:
        raise _refused(settings.host, settings.port, error, "DRAGOMAN_PORT") from error
    listener.listen(2048)
    listener.settimeout(0)
    return listener


def reserve_grpc(settings: Settings) -> socket.socket | None:
    """A socket that keeps the port of gRPC for this server; None where the extra is not installed and nobody asked.

    gRPC opens its own sockets, in each process that serves: they share the port, and the kernel shares the calls out.

    Raises:
        ConfigError: a port was asked for, and the extra is not installed.
        ListenError: the port belongs to another.
    """
    if any(find_spec(name) is None for name in _NEEDED_BY_GRPC):
        if "grpc_port" in settings.model_fields_set:
            raise ConfigError("DRAGOMAN_GRPC_PORT needs the extra `grpc`: pip install 'dragoman[grpc]'")
        _LOG.info("grpc.off", reason="the extra `grpc` is not installed")
        return None
    try:
        if settings.grpc_port:
            # Once alone: another server that shares its own port must not get half of our calls.
            _bind(settings.host, settings.grpc_port, share=False).close()
        return _bind(settings.host, settings.grpc_port, share=True)
    except OSError as error:
        raise _refused(settings.host, settings.grpc_port, error, "DRAGOMAN_GRPC_PORT") from error


def share_port(host: str, port: int) -> socket.socket:
    """Another socket of a port that is reserved: several processes, and gRPC beside them, share it."""
    return _bind(host, port, share=True)


def port_of(listener: socket.socket) -> int:
    """The port that it got."""
    port: int = listener.getsockname()[1]
    return port


def address_of(host: str, port: int) -> str:
    """As it stands in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def url_of(settings: Settings, listener: socket.socket) -> str:
    """Where HTTP is answered."""
    return f"{'https' if settings.tls_cert else 'http'}://{address_of(settings.host, port_of(listener))}"


def home_of(settings: Settings) -> str:
    """A name by which others find this machine, for answers to those who did not say what they call it."""
    return socket.gethostname() if settings.host in _WILDCARDS else settings.host


def _bind(host: str, port: int, *, share: bool) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if share:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _refused(host: str, port: int, error: OSError, variable: str) -> ListenError:
    return ListenError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with {variable}")
