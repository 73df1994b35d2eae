"""The commands that run a server or a part of one."""

import os
import sys
from collections.abc import Callable

import rich_click as click

from dragoman.doors.cli.endings import Ending, WrongUsage
from dragoman.doors.cli.program import Programs, program
from dragoman.doors.cli.session import settings_or_end
from dragoman.doors.cli.views import View
from dragoman.doors.cli.workers import registration_commands
from dragoman.infra.config import ConfigError, Settings, unknown_variables


def command(name: str, programs: Programs) -> click.Command:
    """One of `serve`, `serve-child`, `worker` and `migrate`."""
    return {"serve": _serve, "serve-child": _serve_child, "worker": _worker, "migrate": _migrate}[name](programs)


def _serve(programs: Programs) -> click.Command:
    @click.command(epilog=f"Example: {program()} serve --port 9000 --workers 4 --agent my_agent:agent")
    @click.option("--host", help="Address to listen on [127.0.0.1].")
    @click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one [8080].")
    @click.option("--workers", type=click.IntRange(1, 64), help="Server processes [1].")
    @click.option("--agent", help="An agent written with kit to serve over A2A, as module:name.")
    @click.option("--no-worker", is_flag=True, help="Perform no delegated actions; only conversations.")
    def serve(host: str | None, port: int | None, workers: int | None, agent: str | None, *, no_worker: bool) -> None:
        """Run the server, with its own PostgreSQL and Valkey unless it is given others.

        It is configured by environment variables, or by the TOML file that DRAGOMAN_CONFIG names; `config check`
        shows what is in force. The options here win over both.
        """
        given = {
            "DRAGOMAN_WORKERS": workers,
            "DRAGOMAN_HOST": host,
            "DRAGOMAN_PORT": port,
            "DRAGOMAN_AGENT": agent,
            "DRAGOMAN_TASKS__TAKE_OVER": "false" if no_worker else None,
        }
        os.environ.update({name: str(value) for name, value in given.items() if value is not None})
        _run(programs.serve, programs)

    return serve


def _serve_child(programs: Programs) -> click.Command:
    @click.command("serve-child", hidden=True)
    def serve_child() -> None:
        """One process of `serve --workers N`."""
        _run(programs.serve_child, programs)

    return serve_child


def _worker(programs: Programs) -> click.Command:
    @click.group(
        invoke_without_command=True,
        epilog="Example: DRAGOMAN_DATABASE_URL=postgresql://db/dragoman DRAGOMAN_REDIS_URL=redis://cache "
        f"{program()} worker",
    )
    @click.pass_context
    def worker(ctx: click.Context) -> None:
        """Run background work only, beside servers on the same database; or register workers of others.

        It needs DRAGOMAN_DATABASE_URL, DRAGOMAN_REDIS_URL and the servers' keys (DRAGOMAN_SECRETS_DIR); a server with
        embedded PostgreSQL and Valkey does this work itself.
        """
        if ctx.invoked_subcommand is None:
            _run(programs.work, programs)

    for one in registration_commands():
        worker.add_command(one)
    return worker


def _migrate(programs: Programs) -> click.Command:
    @click.command(epilog=f"Example: DRAGOMAN_DATABASE_ADMIN_URL=postgresql://owner@db/dragoman {program()} migrate")
    def migrate() -> None:
        """Bring the schema of a database to what this release needs, as the owner of the database.

        Servers whose own user owns nothing do not migrate: run this before them. The embedded one is migrated by
        `serve`.
        """

        def bring_up_to_date(settings: Settings) -> None:
            View().say(f"applied {programs.migrate(settings)} migrations; the schema is that of this release")

        _run(bring_up_to_date, programs)

    return migrate


def _run(start: Callable[[Settings], None], programs: Programs) -> None:
    settings = settings_or_end()
    view = View()
    for complaint in unknown_variables(os.environ):
        view.err.print(f"warning: {complaint}", style="yellow")
    try:
        start(settings)
    except KeyboardInterrupt:
        sys.exit(0)
    except ConfigError as error:
        raise WrongUsage(f"cannot start: {error}") from error
    except programs.expected_errors() as error:
        raise Ending(f"cannot start: {error}") from error
