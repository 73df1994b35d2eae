"""Workers whose attempts leave a line in the journal for everything they do, and end when the test lets them."""

import asyncio
import os
from collections.abc import Sequence
from typing import Any, Final, Literal

from pydantic import Field

from dragoman.errors import Conflict, UpstreamUnavailable
from dragoman.operations import Input
from dragoman.services.tasks.actions.errors import InputNeeded
from dragoman.services.workers.protocol import Assignment, Capability, Performed
from tests.chaos.journal import Journal

_TICK_S: Final = 0.05
# An attempt may act for so long: a look that finds nothing is believed only afterwards.
FIND_SOON_S: Final = 4.0


class Job(Input):
    """What an attempt is to do, and where it waits for its gate."""

    name: str = Field(min_length=1)
    for_s: float = 0
    # Inside the call to the outside: before anything happened there, or after it and before it is known here.
    hold: Literal["none", "before", "after"] = "none"


class Nothing(Input):
    """Takes nothing."""


class Crew:
    """Acts outside in every mode that the ledger of effects has."""

    name = "crew"

    @property
    def capabilities(self) -> Sequence[Capability]:
        """One for each mode."""
        return (
            Capability("work.park", "Act, and ask a person when it is not known", Job, required=False),
            Capability("work.find", "Act, and look whether it was done", Job, required=False, timeout_s=30),
            Capability("work.find_soon", "The same, in little time", Job, required=False, timeout_s=FIND_SOON_S),
            Capability("work.repeat", "Act as often as needed", Job, required=False),
            Capability("work.long", "Take long, and do nothing", Job, required=False),
            Capability("work.approve", "Act once it was approved", Job, required=False, sensitive=True),
            Capability("work.ask", "Ask two questions", Job, required=False),
            Capability("work.refuse", "Refuse for good", Nothing, required=False),
            Capability("work.never", "Find the other side away", Nothing, required=False),
        )

    async def perform(self, assignment: Assignment) -> Performed:
        """As the action says."""
        action = assignment.envelope.action
        if action == "work.never":
            raise UpstreamUnavailable("the other side")
        if action == "work.refuse":
            raise Conflict("not like this")
        job = assignment.input
        assert isinstance(job, Job)
        if action == "work.ask" and len(assignment.answers) < 2:
            raise InputNeeded(f"question {len(assignment.answers) + 1}", worker=self.name)
        return Performed(await Attempt(assignment, job).make(action))


class Attempt:
    """One attempt at one task."""

    def __init__(self, assignment: Assignment, job: Job) -> None:
        self._assignment, self._job = assignment, job
        self._run = f"{os.getpid()}-{assignment.attempt}"
        self._journal = Journal.of_process()

    async def make(self, action: str) -> dict[str, Any]:
        """Do everything, and note how it was stopped if it was."""
        self._note("begin")
        try:
            done = await self._make(action)
        except BaseException as error:
            self._note("stopped", type(error).__name__)
            raise
        self._note("end")
        return done

    async def _make(self, action: str) -> dict[str, Any]:
        if action == "work.long":
            await self._wait(self._job.for_s)
            return {}
        if action == "work.ask":
            return {"answers": [answer["answer"] for answer in self._assignment.answers]}
        once, request = self._assignment.effects.once, {"name": self._job.name}
        if action == "work.repeat":
            return await once("act", request, self._act, repeatable=True)
        find = self._find if action in ("work.find", "work.find_soon") else None
        return await once("act", request, self._act, find=find)

    async def _act(self, key: str) -> dict[str, Any]:
        self._note("performing", key)
        await self._hold("before")
        await asyncio.sleep(self._job.for_s / 2)
        self._note("effect", key)
        await asyncio.sleep(self._job.for_s / 2)
        await self._hold("after")
        return {"name": self._job.name, "key": key}

    async def _find(self, key: str) -> dict[str, Any] | None:
        known = [one for one in self._journal.read(self._job.name, "effect") if one.key == key]
        self._note("looked", "found" if known else "not found")
        return {"name": self._job.name, "key": key} if known else None

    async def _hold(self, where: str) -> None:
        while self._job.hold == where and not self._journal.gate_is_open(self._job.name):  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(_TICK_S)

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until or not (seconds or self._journal.gate_is_open(self._job.name)):
            await asyncio.sleep(_TICK_S)
            self._note("tick")

    def _note(self, what: str, key: str | None = None) -> None:
        self._journal.write(self._job.name, what, run=self._run, key=key)


workers = [Crew()]
