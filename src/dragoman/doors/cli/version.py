"""`dragoman version`, which imports nothing."""

import json

import rich_click as click

from dragoman import __version__
from dragoman.doors.cli.program import program


def version_command() -> click.Command:
    """Which release this is."""

    @click.command(epilog=f"Example: {program()} version --json")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    def version(as_json: bool) -> None:  # noqa: FBT001 - click calls it by name
        """Print the version."""
        click.echo(json.dumps({"version": __version__}) if as_json else f"dragoman {__version__}")

    return version
