"""Entry: hands the composition root to the command line."""

from typing import TYPE_CHECKING

from dragoman.doors.cli.commands import run
from dragoman.doors.cli.program import Programs, allow_unused, refuse_unused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dragoman.infra.config import Settings


def main() -> None:
    """Run the command line."""
    refuse_unused()
    run(PROGRAMS)


# The server is imported only by the commands that run it: asking it something must not cost half a second of imports.


def _serve(settings: "Settings") -> None:
    from dragoman.app.serving import serve  # noqa: PLC0415
    from dragoman.doors.cli.banner import announce_server  # noqa: PLC0415

    allow_unused()
    serve(settings, announce_server)


def _serve_child(settings: "Settings") -> None:
    from dragoman.app.serving import serve_child  # noqa: PLC0415

    allow_unused()
    serve_child(settings)


def _work(settings: "Settings") -> None:
    from dragoman.app.serving import work  # noqa: PLC0415
    from dragoman.doors.cli.banner import announce_worker  # noqa: PLC0415

    allow_unused()
    work(settings, announce_worker)


def _migrate(settings: "Settings") -> int:
    from dragoman.app.serving import bring_up_to_date  # noqa: PLC0415

    return bring_up_to_date(settings)


def _bridge(url: str, token: "Callable[[], str]", trusted_cert: "Path | None") -> None:
    from dragoman.doors.mcp.bridge import bridge  # noqa: PLC0415

    bridge(url, token, trusted_cert)


def _expected_errors() -> tuple[type[Exception], ...]:
    from dragoman.app.listening import ListenError  # noqa: PLC0415
    from dragoman.errors import UpstreamUnavailable  # noqa: PLC0415
    from dragoman.infra.auth.authority import PolicyError  # noqa: PLC0415
    from dragoman.infra.auth.keyring import KeyringError  # noqa: PLC0415
    from dragoman.infra.db import MigrationError  # noqa: PLC0415
    from dragoman.infra.embedded import EmbeddedError  # noqa: PLC0415

    return EmbeddedError, KeyringError, ListenError, MigrationError, PolicyError, UpstreamUnavailable


PROGRAMS = Programs(
    serve=_serve,
    serve_child=_serve_child,
    work=_work,
    migrate=_migrate,
    bridge=_bridge,
    expected_errors=_expected_errors,
)

if __name__ == "__main__":
    main()
