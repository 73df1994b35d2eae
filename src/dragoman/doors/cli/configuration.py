"""`dragoman config`: what is in force, and what is wrong with it."""

import os
import re
import sys
from typing import Any

import rich_click as click

from dragoman.doors.cli.endings import USAGE
from dragoman.doors.cli.program import program
from dragoman.doors.cli.session import settings_or_end
from dragoman.doors.cli.views import View
from dragoman.infra.config import unknown_variables

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


def config_command() -> click.Command:
    """A group, though it has one command yet."""

    @click.group(no_args_is_help=True)
    def config() -> None:
        """Show and check the configuration."""

    config.add_command(_check())
    return config


def _check() -> click.Command:
    @click.command(epilog=f"Example: DRAGOMAN_CONFIG=/etc/dragoman.toml {program()} config check")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    def check(as_json: bool) -> None:  # noqa: FBT001 - click calls it by name
        """Read the environment and the file, and say what is wrong or what is in force; secrets are not shown.

        Ends with 2 when a value is wrong or a DRAGOMAN_ variable is none of ours.
        """
        view = View(as_json=as_json)
        values = _redacted(settings_or_end().model_dump(mode="json"))
        complaints = unknown_variables(os.environ)
        if as_json:
            view.json({"settings": values, "unknown": complaints})
        else:
            view.thing(values)
            for complaint in complaints:
                view.err.print(complaint, style="red")
        sys.exit(USAGE if complaints else 0)

    return check


def _redacted(values: dict[str, Any]) -> dict[str, Any]:
    """Addresses without the user and password that some of them carry."""
    return {
        name: _CREDENTIALS.sub("**********@", value) if isinstance(value, str) else value
        for name, value in values.items()
    }
