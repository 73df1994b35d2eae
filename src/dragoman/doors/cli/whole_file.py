"""Files as wholes: what commands send, and what they write, which is there whole or not at all."""

import base64
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from dragoman.doors.cli.endings import Ending, WrongUsage

STDOUT = "-"


def encoded(file: Path) -> str:
    """What stands in a file, as base64.

    Raises:
        WrongUsage: it cannot be read.
    """
    try:
        return base64.b64encode(file.read_bytes()).decode()
    except OSError as error:
        raise WrongUsage(f"cannot read {file}: {error.strerror}") from None


@contextmanager
def whole_file(file: str) -> Generator[TextIO]:
    """A file to write to, or the terminal for `-`.

    Raises:
        Ending: it cannot be written where it should be.
    """
    if file == STDOUT:
        yield sys.stdout
        return
    with _appearing(file) as descriptor, os.fdopen(descriptor, "w", encoding="utf-8") as out:
        yield out


@contextmanager
def whole_binary_file(file: str) -> Generator[BinaryIO]:
    """The same for bytes.

    Raises:
        Ending: it cannot be written where it should be.
    """
    if file == STDOUT:
        yield sys.stdout.buffer
        return
    with _appearing(file) as descriptor, os.fdopen(descriptor, "wb") as out:
        yield out


@contextmanager
def _appearing(file: str) -> Generator[int]:
    """A descriptor of a file that takes its name when the block, which closes it, ends well."""
    target = Path(file)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise Ending(f"cannot write {file}: {error.strerror}") from None
    try:
        yield descriptor
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
