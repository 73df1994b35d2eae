"""`dragoman costs`: its operations as commands, and the commands that are made by hand.

A module a command, with a function from its summary to a click command, named in `SUBCOMMANDS`. One that has the name
of an operation replaces the command that was made of it.
"""

import importlib
from typing import Final

import rich_click as click

from dragoman.doors.cli.projection import project_noun
from dragoman.plugin import Command

SUBCOMMANDS: Final[list[Command]] = [
    Command("import", "Import a billing export.", load="dragoman_costs.cli.importing:import_command"),
    Command("dashboard", "Look at costs on one page.", load="dragoman_costs.cli.dashboard:dashboard_command"),
    Command("query", "Ask what clouds cost.", load="dragoman_costs.cli.query:query_command"),
    Command("demo", "Load a demo: months of made-up spend.", load="dragoman_costs.cli.demo:demo_command"),
]


def load(summary: str) -> click.RichGroup:
    """Return the group with everything below it."""
    group = project_noun("costs", summary)
    for command in SUBCOMMANDS:
        module, _, function = command.load.partition(":")
        made: click.Command = getattr(importlib.import_module(module), function)(command.summary)
        group.add_command(made, command.name)
    return group
