"""`dragoman demo`: the story of one action, on a server of its own, in about ninety seconds."""

import os
import shutil
import tempfile
from pathlib import Path

import rich_click as click

from dragoman.doors.cli.endings import Ending
from dragoman.doors.cli.program import program
from dragoman.doors.cli.views import View


def demo_command() -> click.Command:
    """The command."""

    @click.command(name="demo", epilog=f"Example: {program()} demo")
    @click.option("--keep", is_flag=True, help="Leave the server's directory for a closer look.")
    def demo(*, keep: bool) -> None:
        """Watch one action go through three doors, an approval, a crash and an attempt at forgery.

        Everything is real: a server with PostgreSQL and Valkey of its own in a new directory, killed with kill -9 and
        started again. Nothing of it touches your own server.
        """
        from dragoman.demo.stage import Stage, StageError  # noqa: PLC0415 - a help page needs no cryptography
        from dragoman.demo.story import Story, StoryError  # noqa: PLC0415

        view, directory = View(), Path(tempfile.mkdtemp(prefix="dgd-"))
        directory.chmod(0o755)
        stage = Stage(directory, os.environ)
        try:
            Story(stage, directory, view.line).play()
        except (StageError, StoryError) as error:
            raise Ending(f"the story did not come to its end: {error}") from None
        finally:
            stage.stop()
            if keep:
                view.note(f"left in {directory}")
            else:
                shutil.rmtree(directory, ignore_errors=True)
        view.say("")
        view.say(("One task, one approval, one delivery, and a record that tells when it was bent.", "bold green"))

    return demo
