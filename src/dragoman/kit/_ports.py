"""What a host gives to a running skill: the ports it implements, and what the skill sees of them.

A host (the durable server, or the in-memory Runtime of this package) implements `StatePort`, `ProgressPort`,
`Cancellation` and `Effects`. A skill uses `State` and `Progress`, which add types and checks on top.
"""

import copy
import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, get_args, overload

from pydantic import JsonValue

from dragoman.kit._artifact import Artifact
from dragoman.kit._validation import from_json, to_json

T = TypeVar("T")
R = TypeVar("R")
Change: TypeAlias = Callable[[JsonValue], JsonValue]
Scope: TypeAlias = Literal["task", "session"]
LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
# From what matters least to what matters most.
LOG_LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)


class Activity(StrEnum):
    """What a processing task is busy with."""

    EXECUTING = "executing"
    AWAITING_TOOL = "awaiting_tool"


class StatePort(Protocol):
    """JSON values of one task (`task`) and of its conversation (`session`), by key. Where they live is the host's."""

    async def load(self, scope: Scope, key: str) -> JsonValue:
        """The value, or None where there is none."""
        ...

    async def save(self, scope: Scope, key: str, value: JsonValue) -> None:
        """Keep the value; the one before is replaced."""
        ...

    async def modify(self, scope: Scope, key: str, change: Change) -> JsonValue:
        """Replace the value (None where there is none) by what `change` makes of it, and return that; None removes it.

        Atomic against every other change of this value, whichever process makes it. Nothing changes if `change` raises.
        """
        ...

    async def remove(self, scope: Scope, key: str) -> None:
        """Forget the value; nothing happens where there is none."""
        ...


class ProgressPort(Protocol):
    """Where news of a running task goes; none of it changes the task's state."""

    async def update(self, text: str, percent: float | None) -> None:
        """Words on how far it is."""
        ...

    async def log(self, text: str, level: LogLevel) -> None:
        """A line for whoever wants to know how it is done."""
        ...

    async def artifact(self, artifact: Artifact, *, append: bool, last_chunk: bool) -> None:
        """A draft, or a further piece of the draft of that name. It becomes final only when the task is completed."""
        ...

    async def activity(self, activity: Activity, tools: tuple[str, ...]) -> None:
        """The task waits for these tools, or goes on executing."""
        ...


class Cancellation(Protocol):
    """Set once the task is to stop; `asyncio.Event` and `threading.Event` are such."""

    def is_set(self) -> bool:
        """Whether someone asked to stop."""
        ...


class ScopedState:
    """Typed values by key, in one scope."""

    def __init__(self, port: StatePort, scope: Scope) -> None:
        self._port = port
        self._scope: Scope = scope

    async def save(self, key: str, value: object) -> None:
        """Keep a model, a dataclass or any JSON value.

        None is nothing: to save it is to remove the key.

        Raises:
            TypeError: the value cannot be written as JSON.
        """
        written = to_json(value)
        if written is None:
            await self._port.remove(self._scope, _checked(key))
        else:
            await self._port.save(self._scope, _checked(key), written)

    @overload
    async def update(self, key: str, change: Callable[[Any], R]) -> R: ...
    @overload
    async def update(self, key: str, change: Callable[[T | None], R], target: type[T]) -> R: ...
    async def update(self, key: str, change: Callable[[Any], R], target: type[Any] | None = None) -> R:
        """Read a value, apply a plain function to it and keep what that returns, all in one step; return it too.

        No other update is lost, however many tasks and processes make one at the same time. The function is given the
        value as JSON, or as `target` where that is given, and None where nothing was saved; returning None removes the
        key. Others wait meanwhile, so it only calculates. If it raises, nothing is changed.

        Raises:
            TypeError: the function is async, or what it returns cannot be written as JSON.
            ValueError: what was saved is not of the type `target`.
        """
        if inspect.iscoroutinefunction(change):
            raise TypeError("update takes a plain function: await before it or after it, not within")
        made: list[R] = []

        def changed(value: JsonValue) -> JsonValue:
            kept = change(value if target is None or value is None else self._read(key, value, target))
            written = to_json(kept)
            made.append(kept)
            return written

        await self._port.modify(self._scope, _checked(key), changed)
        return made[-1]

    async def load(self, key: str, target: type[T]) -> T | None:
        """The value as its type, or None where nothing was saved.

        Raises:
            ValueError: what was saved is of another type.
        """
        value = await self._port.load(self._scope, _checked(key))
        return None if value is None else self._read(key, value, target)

    async def remove(self, key: str) -> None:
        """Forget the value; nothing happens where there is none."""
        await self._port.remove(self._scope, _checked(key))

    def _read(self, key: str, value: JsonValue, target: type[T]) -> T:
        try:
            return from_json(value, target)
        except ValueError as error:
            raise ValueError(f"{self._scope} state {key!r} is {error}") from error


class State:
    """What survives between turns: `task()` for this task alone, `session()` for the whole conversation."""

    def __init__(self, port: StatePort) -> None:
        self._port = port

    def task(self) -> ScopedState:
        """Values of this task."""
        return ScopedState(self._port, "task")

    def session(self) -> ScopedState:
        """Values that all tasks of this conversation share."""
        return ScopedState(self._port, "session")


class Progress:
    """News of a running task. How it ends is said by the result alone."""

    def __init__(self, port: ProgressPort) -> None:
        self._port = port

    async def update(self, text: str, percent: float | None = None) -> None:
        """Say how far it is.

        Raises:
            ValueError: percent is not within 0 and 100.
        """
        if percent is not None and not 0 <= percent <= 100:
            raise ValueError(f"percent is within 0 and 100, not {percent}")
        await self._port.update(text, percent)

    async def log(self, text: str, level: LogLevel = "info") -> None:
        """Say something to those who look at how it is done; nobody may be looking, and the task does not wait for it.

        Raises:
            ValueError: there is no such level.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"a level is one of {', '.join(LOG_LEVELS)}, not {level!r}")
        await self._port.log(text, level)

    async def artifact(self, artifact: Artifact, *, append: bool = False, last_chunk: bool = True) -> None:
        """Show a draft; with `append`, add to the draft of the same name.

        What was shown becomes final only if the task is completed; then it need not be repeated in `Completed`.
        """
        await self._port.artifact(artifact, append=append, last_chunk=last_chunk)


class InMemoryState:
    """A StatePort that lives as long as the process; a task's dictionary and its conversation's.

    It keeps copies and gives copies, as a database does: what is not saved is not kept.
    """

    def __init__(self, task: dict[str, JsonValue] | None = None, session: dict[str, JsonValue] | None = None) -> None:
        self._values: dict[Scope, dict[str, JsonValue]] = {
            "task": {} if task is None else task,
            "session": {} if session is None else session,
        }

    async def load(self, scope: Scope, key: str) -> JsonValue:
        """The value, or None."""
        return copy.deepcopy(self._values[scope].get(key))

    async def save(self, scope: Scope, key: str, value: JsonValue) -> None:
        """Keep the value."""
        self._values[scope][key] = copy.deepcopy(value)

    async def modify(self, scope: Scope, key: str, change: Change) -> JsonValue:
        """Replace the value; nothing is awaited in between."""
        value = change(copy.deepcopy(self._values[scope].get(key)))
        if value is None:
            self._values[scope].pop(key, None)
        else:
            self._values[scope][key] = copy.deepcopy(value)
        return value

    async def remove(self, scope: Scope, key: str) -> None:
        """Forget the value."""
        self._values[scope].pop(key, None)


class SilentProgress:
    """A ProgressPort that nobody listens to."""

    async def update(self, text: str, percent: float | None) -> None:
        """Nobody hears it."""

    async def log(self, text: str, level: LogLevel) -> None:
        """Nobody looks."""

    async def artifact(self, artifact: Artifact, *, append: bool, last_chunk: bool) -> None:
        """Nobody sees it."""

    async def activity(self, activity: Activity, tools: tuple[str, ...]) -> None:
        """Nobody minds."""


class Uncancelled:
    """A Cancellation that never comes."""

    def is_set(self) -> bool:
        """Never."""
        return False


def _checked(key: str) -> str:
    if not key or len(key) > 200:
        raise ValueError(f"a key has 1 to 200 characters, not {len(key)}")
    return key
