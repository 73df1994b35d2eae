"""Workers for tests: what they do lies in a directory of files, outside every database."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from dragoman.context import report_progress
from dragoman.errors import Conflict, UpstreamUnavailable
from dragoman.operations import Input
from dragoman.services.tasks.actions.errors import InputNeeded
from dragoman.services.workers.protocol import Assignment, Capability, Performed

# Each effect is a file that is opened to be appended to: one line for each time it was done.
OUTSIDE: Final = "COUNTING_DIR"


class Count(Input):
    """What to count."""

    name: str = Field(min_length=1, pattern=r"^[a-z0-9-]+$")
    stay_s: float = 0


class Nothing(Input):
    """Nothing at all."""


class Counting:
    """Counts, fails, hangs, dies and asks, as it is told to."""

    name = "counting"

    @property
    def capabilities(self) -> Sequence[Capability]:
        """One for each way in which a worker may behave."""
        return (
            Capability("count.once", "Count something once", Count, required=False),
            Capability("count.unsafe", "Count without looking back", Count, required=False),
            Capability("count.nothing", "Do nothing", Nothing, required=False),
            Capability("count.secret", "Count something sensitive", Count, required=False, sensitive=True),
            Capability("count.never", "Find nobody there", Nothing, required=False),
            Capability("count.refuse", "Refuse", Nothing, required=False),
            Capability("count.break", "Break", Nothing, required=False),
            Capability("count.die", "Kill the process", Count, required=False),
            Capability("count.hang", "Take too long", Nothing, required=False, timeout_s=0.3),
            Capability("count.wait", "Wait until a file is there", Count, required=False),
            Capability("count.ask", "Ask first", Nothing, required=False),
        )

    async def perform(self, assignment: Assignment) -> Performed:
        """As the action says."""
        verb = assignment.envelope.action.partition(".")[2]
        return await getattr(self, f"_{verb}")(assignment)

    async def _once(self, assignment: Assignment) -> Performed:
        given = assignment.input
        assert isinstance(given, Count)

        async def count(key: str) -> dict[str, Any]:
            await asyncio.to_thread(_count, given.name, key)
            await asyncio.sleep(given.stay_s)
            return {"counted": given.name}

        async def find(key: str) -> dict[str, Any] | None:
            lines = await asyncio.to_thread(_lines, given.name)
            return {"counted": given.name} if key in lines else None

        return Performed(await assignment.effects.once("count", {"name": given.name}, count, find=find))

    _secret = _once

    async def _unsafe(self, assignment: Assignment) -> Performed:
        given = assignment.input
        assert isinstance(given, Count)

        async def count(key: str) -> dict[str, Any]:
            await asyncio.to_thread(_count, given.name, key)
            await asyncio.sleep(given.stay_s)
            return {"counted": given.name}

        return Performed(await assignment.effects.once("count", {"name": given.name}, count))

    async def _nothing(self, assignment: Assignment) -> Performed:
        return Performed({"attempt": assignment.attempt})

    async def _never(self, _: Assignment) -> Performed:
        raise UpstreamUnavailable("the other side")

    async def _refuse(self, _: Assignment) -> Performed:
        raise Conflict("not like this")

    async def _break(self, _: Assignment) -> Performed:
        raise RuntimeError("a secret of the worker")

    async def _die(self, assignment: Assignment) -> Performed:
        given = assignment.input
        assert isinstance(given, Count)
        if not await asyncio.to_thread(_lines, given.name):
            await asyncio.to_thread(_count, given.name, "died")
            os.kill(os.getpid(), 9)
        return Performed({"attempt": assignment.attempt})

    async def _hang(self, _: Assignment) -> Performed:
        await asyncio.Event().wait()
        raise AssertionError

    async def _wait(self, assignment: Assignment) -> Performed:
        given = assignment.input
        assert isinstance(given, Count)
        await report_progress("waiting", 10)
        while not await asyncio.to_thread(_lines, given.name):  # noqa: ASYNC110 - it waits for another process
            await asyncio.sleep(0.01)
        return Performed({"attempt": assignment.attempt})

    async def _ask(self, assignment: Assignment) -> Performed:
        if not assignment.answers:
            raise InputNeeded("which colour?", worker=self.name)
        return Performed({"colour": assignment.answers[-1]["answer"]})


def _count(name: str, key: str) -> None:
    with (Path(os.environ[OUTSIDE]) / name).open("a") as file:
        file.write(f"{key}\n")


def _lines(name: str) -> list[str]:
    path = Path(os.environ[OUTSIDE]) / name
    return path.read_text().splitlines() if path.exists() else []


workers = [Counting()]
