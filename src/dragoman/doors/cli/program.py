"""The program under the name it was called by, and what it can run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.infra.config import Settings

_MODULES: dict[str, Any] = sys.modules
_PYGMENTS = "pygments"
_NAMES = ("dragoman", "agent-a2a")


def program() -> str:
    """`dragoman`, or `agent-a2a` for those who know it by that name."""
    called = Path(sys.argv[0]).name
    return called if called in _NAMES else _NAMES[0]


def typed_program() -> str:
    """The same as one would type it here: with its path, when a virtual environment is not on the search path."""
    return f".venv/bin/{program()}" if sys.argv[0].startswith(".venv/bin/") else program()


def refuse_pygments() -> None:
    """Keep it from being loaded: libraries do so for output that few commands write, and it would stay in a server."""
    _MODULES.setdefault(_PYGMENTS, None)


def allow_pygments() -> None:
    """For commands that write such output, and for what is imported on behalf of others."""
    if _MODULES.get(_PYGMENTS) is None:
        _MODULES.pop(_PYGMENTS, None)


@dataclass(frozen=True, slots=True)
class Programs:
    """What the composition root can run, and how its start may fail in ways that a person can mend."""

    serve: Callable[["Settings"], None]
    serve_child: Callable[["Settings"], None]
    work: Callable[["Settings"], None]
    migrate: Callable[["Settings"], int]
    bridge: Callable[[str, Callable[[], str], Path | None], None]
    expected_errors: Callable[[], tuple[type[Exception], ...]]
