"""Entry: hands the composition root to the command line."""

from dragoman.doors.cli.commands import Programs, create
from dragoman.infra.config import Settings


def main() -> None:
    """Run the command line."""
    create(Programs(serve=_serve, serve_child=_serve_child, work=_work))()


# The server is imported only by the commands that run it: asking it something must not cost half a second of imports.


def _serve(settings: Settings) -> None:
    from dragoman.app.serving import serve  # noqa: PLC0415
    from dragoman.doors.cli.banner import announce_server  # noqa: PLC0415

    serve(settings, announce_server)


def _serve_child(settings: Settings) -> None:
    from dragoman.app.serving import serve_child  # noqa: PLC0415

    serve_child(settings)


def _work(settings: Settings) -> None:
    from dragoman.app.serving import work  # noqa: PLC0415
    from dragoman.doors.cli.banner import announce_worker  # noqa: PLC0415

    work(settings, announce_worker)


if __name__ == "__main__":
    main()
