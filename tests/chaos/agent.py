"""An agent whose turns leave a line in the journal for everything they do, and end when the test lets them."""

import asyncio
import os
from itertools import count
from typing import Any, Final, Literal

from pydantic import BaseModel

from dragoman.kit import (
    Agent,
    Artifact,
    Completed,
    Content,
    Context,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    SkillHandler,
    SkillSlot,
    skill,
)
from tests.chaos.journal import Journal

_TICK_S: Final = 0.05
_RUNS = count(1)


class Work(BaseModel):
    """What a turn is to do: wait for its gate or some seconds, call into the host, act outside, ask."""

    name: str
    # Without a time the turn lasts until its gate is open.
    for_s: float | None = None
    # A turn that ticks shows that it runs without asking the host; one that steps asks the host each time.
    beat: Literal["tick", "step", "none"] = "none"
    # The call into the host just before the turn acts: it raises in an attempt that has lost its task.
    fence: Literal["progress", "state", "none"] = "none"
    act: Literal["plain", "ledger", "ledger-find", "none"] = "plain"
    # Wait for a gate within the effect, after it happened and before that is written down.
    hold: bool = False
    # Wait for a gate after the effect was written down.
    stay: bool = False
    ask: bool = False


class Turn:
    """One call of the skill."""

    def __init__(self, ctx: Context, work: Work) -> None:
        self.ctx, self.work = ctx, work
        self.run = f"{os.getpid()}-{next(_RUNS)}"
        self.journal = Journal.of_process()

    def note(self, what: str, key: str | None = None) -> None:
        """Leave a line."""
        self.journal.write(self.work.name, what, run=self.run, key=key)

    async def take(self) -> dict[str, Any]:
        """Do everything, and note how it was stopped if it was."""
        self.note("begin")
        try:
            if not (self.work.hold or self.work.stay):
                await self._wait()
            await self._fence(self.work.fence)
            done = await self._act()
            self.note("acted")
            if self.work.stay:
                await self._gate(f"{self.work.name}-stay")
        except BaseException as error:
            self.note("stopped", type(error).__name__)
            raise
        self.note("end")
        return done

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        until = None if self.work.for_s is None else loop.time() + self.work.for_s
        while not (self.journal.gate_is_open(self.work.name) if until is None else loop.time() >= until):
            await asyncio.sleep(_TICK_S)
            if self.work.beat == "tick":
                self.note("tick")
            elif self.work.beat == "step":
                await self.ctx.progress.update("a step")
                self.note("step")

    async def _gate(self, name: str) -> None:
        while not self.journal.gate_is_open(name):  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(_TICK_S)

    async def _fence(self, by: str) -> None:
        if by == "progress":
            await self.ctx.progress.update("about to act", percent=90)
        elif by == "state":
            await self.ctx.state.task().save("about", "to act")

    async def _act(self) -> dict[str, Any]:
        if self.work.act == "none":
            return {}
        if self.work.act == "plain":
            return await self._perform(self.ctx.task_id)
        find = self._find if self.work.act == "ledger-find" else None
        return await self.ctx.effects.once("act", {"name": self.work.name}, self._perform, find=find)

    async def _perform(self, key: str) -> dict[str, Any]:
        self.note("effect", key)
        if self.work.hold:
            await self._gate(f"{self.work.name}-hold")
        return {"name": self.work.name, "key": key}

    async def _find(self, key: str) -> dict[str, Any] | None:
        known = [one for one in self.journal.read(self.work.name, "effect") if one.key == key]
        return {"name": self.work.name, "key": key} if known else None


@skill(id="work", description="Does what a test asks for.")
class WorkSkill(SkillHandler):
    """Runs one turn, or asks first and runs it with the answer."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        work = Work.model_validate(content.data[0])
        if work.ask:
            await ctx.state.task().save("work", work)
            return InputRequired("May I?", SkillSlot("consent"))
        return Completed("Done.", artifacts=[Artifact.from_json("done", await Turn(ctx, work).take())])

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        work = await ctx.state.task().load("work", Work)
        assert work is not None
        turn = Turn(ctx, work)
        turn.note("answer", content.text)
        return Completed("Done.", artifacts=[Artifact.from_json("done", await turn.take())])


agent = Agent("chaos", "Does what tests ask for.", "1.0.0", skills=[WorkSkill])
