"""The log of a test: written to memory, read back, and put away afterwards."""

import io
import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from dragoman.infra.telemetry.logs import configure_logs


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Lines:
    """What was logged, as text and as events."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def only(self) -> dict[str, Any]:
        (line,) = self.all()
        return line


@contextmanager
def restored_logging() -> Generator[None]:
    """Leave the process's logging as it was found."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    found = structlog.get_config() if structlog.is_configured() else None
    yield
    configure_logs(format="json", level="info", security_log=None)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    if found is not None:
        structlog.configure(**found)


@contextmanager
def captured(*events: str) -> Generator[list[EventDict]]:
    """Keep what is logged under these names; other servers of this process may log meanwhile.

    Leaves structlog as it was: a server that starts later routes its lines only if nobody has configured it.
    """
    configured, kept = structlog.is_configured(), list[EventDict]()
    try:
        with capture_logs() as logs:
            yield kept
        kept += [line for line in logs if line["event"] in events]
    finally:
        if not configured:
            structlog.reset_defaults()
