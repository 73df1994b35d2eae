"""The program under the name it was called by, and what it can run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.infra.config import Settings

_MODULES: dict[str, Any] = sys.modules
_UNUSED = ("pygments", "greenlet")
_NAMES = ("dragoman", "agent-a2a")


def program() -> str:
    """`dragoman`, or `agent-a2a` for those who know it by that name."""
    called = Path(sys.argv[0]).name
    return called if called in _NAMES else _NAMES[0]


def typed_program() -> str:
    """The same as one would type it here: with its path, when a virtual environment is not on the search path."""
    return f".venv/bin/{program()}" if sys.argv[0].startswith(".venv/bin/") else program()


def refuse_unused() -> None:
    """Keep libraries from loading what they can do without, and few commands need: it would stay in a server."""
    for name in _UNUSED:
        _MODULES.setdefault(name, None)


def allow_unused() -> None:
    """Let commands that need them load these libraries, and what is imported on behalf of others."""
    for name in _UNUSED:
        if _MODULES.get(name) is None:
            _MODULES.pop(name, None)


@dataclass(frozen=True, slots=True)
class Programs:
    """What the composition root can run, and how its start may fail in ways that a person can mend."""

    serve: Callable[["Settings"], None]
    serve_child: Callable[["Settings"], None]
    work: Callable[["Settings"], None]
    migrate: Callable[["Settings"], int]
    bridge: Callable[[str, Callable[[], str], Path | None], None]
    expected_errors: Callable[[], tuple[type[Exception], ...]]
