"""The command line: a few commands of its own, and one for every operation."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import rich_click as click

from dragoman import __version__
from dragoman.addresses import BINDINGS, Binding
from dragoman.context import Role
from dragoman.doors.cli.client import Client, Keyboard, Refused, Unreachable, mint_token
from dragoman.doors.cli.projection import Asked, common_options, project
from dragoman.doors.cli.views import View
from dragoman.infra.auth.keyring import KeyringError
from dragoman.infra.auth.tokens import Grant
from dragoman.infra.config import ConfigError, Settings, load_settings, unknown_variables
from dragoman.services.audit.operations import EXPORT_TRAIL
from dragoman.services.tenancy.operations import GET_TENANT

FAILED, USAGE, UNREACHABLE, NOT_ALLOWED = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Programs:
    """What the composition root can run."""

    serve: Callable[[Settings], None]
    serve_child: Callable[[Settings], None]
    work: Callable[[Settings], None]


def create(programs: Programs) -> click.RichGroup:
    """The root command."""
    root = click.RichGroup(
        name="dragoman",
        help="One governed back-end for AI agents.\n\nStart it with `dragoman serve`; every other command talks to a "
        "running server: the one at DRAGOMAN_URL, else the one of this machine.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server, 4 not allowed.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    _add_programs(root, programs)
    project(root, BINDINGS, _call)
    for command in (_token(), _version(), _config()):
        root.add_command(command)
    audit = root.commands["audit"]
    if isinstance(audit, click.RichGroup):
        audit.add_command(_export())
        audit.add_command(_verify(audit.commands["verify"]))
    root.commands.pop("identity", None)
    root.add_command(_whoami())
    return root


def _add_programs(root: click.RichGroup, programs: Programs) -> None:
    @root.command()
    @click.option("--workers", type=click.IntRange(1, 64), help="Server processes [1].")
    @click.option("--host", help="Address to listen on [127.0.0.1].")
    @click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one [8080].")
    def serve(workers: int | None, host: str | None, port: int | None) -> None:  # pyright: ignore[reportUnusedFunction]
        """Run the server, with its own PostgreSQL and Valkey unless it is given others.

        Configure it by environment or by the TOML file that DRAGOMAN_CONFIG names; `dragoman config check` shows both.
        """
        given = {"DRAGOMAN_WORKERS": workers, "DRAGOMAN_HOST": host, "DRAGOMAN_PORT": port}
        os.environ.update({name: str(value) for name, value in given.items() if value is not None})
        _run_program(programs.serve)

    @root.command("serve-child", hidden=True)
    def serve_child() -> None:  # pyright: ignore[reportUnusedFunction]
        """One process of `serve --workers N`."""
        _run_program(programs.serve_child)

    @root.command()
    def worker() -> None:  # pyright: ignore[reportUnusedFunction]
        """Run background work only, beside servers on the same database."""
        _run_program(programs.work)


def _run_program(program: Callable[[Settings], None]) -> None:
    settings = _settings(View(as_json=False))
    for complaint in unknown_variables(os.environ):
        click.echo(f"warning: {complaint}", err=True)
    try:
        program(settings)
    except KeyboardInterrupt:
        sys.exit(0)
    except Exception as error:
        if type(error).__name__ not in _START_ERRORS:
            raise
        click.echo(f"dragoman cannot start: {error}", err=True)
        sys.exit(FAILED)


# By name: importing their modules here would slow every other command down.
_START_ERRORS = {"ConfigError", "EmbeddedError", "KeyringError", "MigrationError", "PolicyError", "UpstreamUnavailable"}


def _call(binding: Binding, given: dict[str, Any], asked: Asked) -> None:
    view = View(as_json=asked.as_json)
    view.envelope(_ask(view, binding, given, asked))


def _ask(view: View, binding: Binding, given: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """The envelope, or the end of the program with the right exit code."""
    settings = _settings(view)
    try:
        return Client(settings, Keyboard(tenant=asked.tenant or "demo")).call(binding, given)
    except Refused as error:
        view.problem(error.problem)
        sys.exit(NOT_ALLOWED if error.not_allowed else FAILED)
    except Unreachable as error:
        _end(view, str(error), UNREACHABLE)
    except KeyringError as error:
        _end(view, str(error), UNREACHABLE if "start the server" in str(error) else NOT_ALLOWED)


def _settings(view: View) -> Settings:
    try:
        return load_settings()
    except ConfigError as error:
        _end(view, f"the configuration is wrong:\n{error}", USAGE)


def _end(view: View, message: str, status: int) -> NoReturn:
    view.complaint(message)
    sys.exit(status)


def _binding(operation: object) -> Binding:
    return next(binding for binding in BINDINGS if binding.operation is operation)


def _token() -> click.Command:
    @click.command()
    @click.option("--tenant", default="demo", help="The tenant it is for [demo].")
    @click.option("--role", type=click.Choice([role.value for role in Role]), default="org_admin", help="[org_admin]")
    @click.option("--user", default="admin", help="Who it speaks as [admin].")
    @click.option("--scope", "scopes", multiple=True, help="Limit it to this scope; may be repeated.")
    @click.option("--ttl", "ttl_s", type=click.IntRange(1, 366 * 86_400), help="Seconds that it lives [a day].")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    def token(tenant: str, role: str, user: str, scopes: tuple[str, ...], ttl_s: int | None, as_json: bool) -> None:  # noqa: FBT001
        """Print a bearer token of the embedded issuer.

        It is signed with the installation's own key, so this works only where that key can be read.

        Example: export DRAGOMAN_TOKEN=$(dragoman token --tenant demo --role analyst)
        """
        view = View(as_json=as_json)
        settings = _settings(view)
        kind = "agent" if role == Role.AGENT.value else "user"
        try:
            made = mint_token(settings, Grant(tenant, user, [role], list(scopes) or None, kind), ttl_s=ttl_s)
            _check_tenant(view, settings, tenant)
        except KeyringError as error:
            _end(view, str(error), NOT_ALLOWED if settings.external_issuer else FAILED)
        if as_json:
            view.json({"token": made, "tenant": tenant, "role": role, "subject": user})
        else:
            click.echo(made)

    return token


def _check_tenant(view: View, settings: Settings, tenant: str) -> None:
    """A mistyped tenant is best found now; with no server to ask, the token is printed all the same."""
    try:
        Client(settings, Keyboard(tenant=tenant)).call(_binding(GET_TENANT), {"tenant": tenant})
    except Unreachable:
        view.err.print("note: no server answers, so the tenant was not checked", style="dim")
    except Refused as error:
        if error.problem.get("status") == 401 and "DRAGOMAN_TOKEN" not in os.environ:
            _end(view, f"there is no active tenant {tenant!r}; see `dragoman tenant list`", FAILED)


def _whoami() -> click.Command:
    binding = next(binding for binding in BINDINGS if binding.operation.name == "identity.show")

    def callback(as_json: bool, as_tenant: str | None) -> None:  # noqa: FBT001 - click calls it by name
        _call(binding, {}, Asked(as_json, as_tenant))

    return click.RichCommand(
        name="whoami", params=common_options(), callback=callback, help="Say who the server takes you for."
    )


def _verify(projected: click.Command) -> click.Command:
    """The projected command, with a verdict that a script can branch on."""

    def callback(as_json: bool, as_tenant: str | None, head: dict[str, Any] | None) -> None:  # noqa: FBT001
        view, asked = View(as_json=as_json), Asked(as_json, as_tenant)
        binding = next(binding for binding in BINDINGS if binding.operation.name == "audit.verify")
        report = _ask(view, binding, {"head": head} if head else {}, asked)["data"]
        if as_json:
            view.json(report)
        elif report["ok"]:
            waiting = f", {report['unsealed']} waiting for their seal" if report["unsealed"] else ""
            view.out.print(f"[green]OK[/]  {report['records']} records, unbroken and signed{waiting}")
            if not report["trusted_heads"]:
                view.out.print(
                    "no head was kept outside the database: a cut at the end cannot be found", style="yellow"
                )
        else:
            for problem in report["problems"]:
                view.out.print(f"[red]BROKEN[/] at link {problem['seq']}: {problem['reason']}")
                if problem["record_id"]:
                    view.out.print(f"       record {problem['record_id']}", style="dim")
        if not report["ok"]:
            sys.exit(FAILED)

    projected.callback = callback
    return projected


def _export() -> click.Command:
    @click.command()
    @click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="-")
    @click.option("--tenant", "as_tenant", default=None, help="Act in this tenant [demo].")
    def export(file: Path, as_tenant: str | None) -> None:
        """Write the audit chain as JSON lines, with its signed head, for the standalone verifier.

        Example: dragoman audit export trail.jsonl
        """
        view, asked = View(as_json=False), Asked(as_json=False, tenant=as_tenant)
        with sys.stdout if str(file) == "-" else file.open("w", encoding="utf-8") as out:
            after: int | None = 0
            head: dict[str, Any] | None = None
            while after is not None:
                piece = _ask(view, _binding(EXPORT_TRAIL), {"after": after}, asked)["data"]
                if after == 0:
                    first = {"type": "export", "tenant": piece["tenant"], "public_key": piece["public_key"]}
                    out.write(json.dumps(first) + "\n")
                for record in piece["records"]:
                    # A head that grew while we were reading reaches further than what an earlier piece promised.
                    out.write(json.dumps({"type": "record", **record}) + "\n")
                head, after = piece["head"], piece["next_after"]
            if head is not None:
                out.write(json.dumps({"type": "head", **head}) + "\n")

    return export


def _version() -> click.Command:
    @click.command()
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    def version(as_json: bool) -> None:  # noqa: FBT001
        """Print the version."""
        click.echo(json.dumps({"version": __version__}) if as_json else f"dragoman {__version__}")

    return version


def _config() -> click.Command:
    @click.group()
    def config() -> None:
        """The configuration in force."""

    @config.command()
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    def check(as_json: bool) -> None:  # noqa: FBT001  # pyright: ignore[reportUnusedFunction]
        """Read the environment and the file, and say what is wrong or what is in force."""
        view = View(as_json=as_json)
        settings = _settings(view)
        complaints = unknown_variables(os.environ)
        values = settings.model_dump(mode="json")
        if as_json:
            view.json({"settings": values, "unknown": complaints})
        else:
            view.thing(values)
        for complaint in complaints:
            view.err.print(complaint, style="red")
        sys.exit(USAGE if complaints else 0)

    return config
