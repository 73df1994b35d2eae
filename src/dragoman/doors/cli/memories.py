"""`dragoman memory`: the projected commands, results that can be read, and files for exports."""

import rich_click as click

from dragoman.doors.cli.projection import project_noun


def memory_commands(help_text: str) -> click.RichGroup:
    """Every operation of memory as a command."""
    return project_noun("memory", help_text)
