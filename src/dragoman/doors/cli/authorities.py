"""`dragoman ca`: a private authority for the agent gateway, in files; it asks no server."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import rich_click as click

from dragoman.doors.cli.endings import WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import settings_or_end
from dragoman.doors.cli.views import View
from dragoman.infra.private_authority import AuthorityError, PrivateAuthority


def authority_commands(help_text: str) -> click.RichGroup:
    """Make, issue, revoke, list."""
    group = click.RichGroup(name="ca", help=help_text, no_args_is_help=True)
    for command in (_init, _issue, _revoke, _list):
        group.add_command(command)
    return group


def _in_directory(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its authority and its view, and turn what the authority refuses into wrong usage."""

    @click.option(
        "--dir", "directory", type=click.Path(path_type=Path), help="Where it is; `ca` in the data directory if unset."
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    @wraps(command)
    def run(directory: Path | None, as_json: bool, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
        authority = PrivateAuthority(directory or settings_or_end().data_dir / "ca")
        try:
            command(authority, View(as_json=as_json), **given)
        except AuthorityError as error:
            raise WrongUsage(str(error)) from None
        except OSError as error:
            raise WrongUsage(f"{authority.directory}: {error.strerror}") from None

    return run


@click.command("init", epilog=f"Example: {program()} ca init --name 'Acme agents'")
@click.option("--name", default="Dragoman agents", help="What it is called [Dragoman agents].")
@_in_directory
def _init(authority: PrivateAuthority, view: View, name: str) -> None:
    """Make an authority: its key stays here, its certificate goes to the server."""
    authority.create(name)
    if view.as_json:
        view.json({"certificate": str(authority.certificate), "revocations": str(authority.revocations)})
        return
    view.line(f"made {name} in {authority.directory}")
    view.note("the server takes its agents with")
    view.line(f"export DRAGOMAN_TLS_CLIENT_CA={authority.certificate}")
    view.line(f"export DRAGOMAN_GATEWAY__CRL={authority.revocations}")
    view.note(f"next: {program()} ca issue NAME")


@click.command("issue", epilog=f"Example: {program()} ca issue finops-acme --days 90")
@click.argument("name")
@click.option("--days", type=click.IntRange(1, 3650), default=365, help="How long it is good [365].")
@click.option(
    "--server", "servers", multiple=True, metavar="HOST", help="For a server of this name or address; may be repeated."
)
@_in_directory
def _issue(authority: PrivateAuthority, view: View, name: str, days: int, servers: tuple[str, ...]) -> None:
    """Issue a client certificate and its key, or with --server those of a server."""
    issued = authority.issue(name, days=days, server_names=servers)
    if view.as_json:
        view.json(
            {
                "name": issued.name,
                "certificate": str(issued.certificate),
                "key": str(issued.key),
                "fingerprint": issued.fingerprint,
                "expires_at": issued.expires_at.isoformat(),
            }
        )
        return
    view.thing(
        {
            "certificate": str(issued.certificate),
            "key": str(issued.key),
            "fingerprint": issued.fingerprint,
            "expires_at": issued.expires_at.isoformat(),
        }
    )
    if servers:
        view.note("the server uses them with")
        view.line(f"export DRAGOMAN_TLS_CERT={issued.certificate} DRAGOMAN_TLS_KEY={issued.key}")
    else:
        view.note("next, register it:")
        view.line(f'{program()} a2a-agent register --name {name!r} --certificate "$(cat {issued.certificate})"')


@click.command("revoke", epilog=f"Example: {program()} ca revoke finops-acme")
@click.argument("name")
@_in_directory
def _revoke(authority: PrivateAuthority, view: View, name: str) -> None:
    """Revoke a certificate: a server that reads the list refuses it within a second."""
    authority.revoke(name)
    if view.as_json:
        view.json({"revoked": name, "revocations": str(authority.revocations)})
    else:
        view.line(f"revoked {name}; the list is {authority.revocations}")


@click.command("list", epilog=f"Example: {program()} ca list")
@_in_directory
def _list(authority: PrivateAuthority, view: View) -> None:
    """List what was issued."""
    issued = authority.list_issued()
    if view.as_json:
        view.json(issued)
    else:
        view.rows("certificate", [{key: value for key, value in one.items() if key != "serial"} for one in issued])
