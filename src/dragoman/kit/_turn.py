"""One turn of a task, the same for every host: find the skill, or go on with it, and give back how it ended.

A host keeps three things with a task: its state, its `skill_id` and its slot. It makes a Context from its ports, calls
`take_turn`, and stores what comes back. Nothing of a turn lives on in this package.
"""

import logging
from dataclasses import dataclass
from typing import Final

from dragoman.errors import DragomanError, InvalidInput
from dragoman.kit._agent import Agent
from dragoman.kit._artifact import Artifact
from dragoman.kit._content import Content
from dragoman.kit._context import Context
from dragoman.kit._effects import find_end
from dragoman.kit._ports import Activity
from dragoman.kit._results import Completed, Failed, InputRequired, OnRequestResult
from dragoman.kit._routing import AskCaller, CallTool, How, UseSkill, is_plain_choice, route
from dragoman.kit._slot import SkillSlot
from dragoman.kit._tool import ToolResult

log = logging.getLogger(__name__)
_ASKED_WHICH: Final = "kit.route"


@dataclass(frozen=True, slots=True)
class Turn:
    """How a turn ended; `skill_id` is to be kept with the task. `route` is None where a skill went on by itself."""

    result: OnRequestResult
    skill_id: str | None = None
    route: How | None = None


async def take_turn(agent: Agent, ctx: Context, content: Content, *, skill_id: str | None = None) -> Turn:
    """Answer one message. It ends in a result; only cancellation and TurnEnded pass through.

    After EffectUnknown the host asks `error.question()` and, once the ledger has the answer, runs this turn again with
    the same message, slot and skill. After AttemptFenced it stores nothing.

    `skill_id` is what the turn before gave; it is None for a new task, and for one that was asked what it is about.
    """
    try:
        if skill_id is None:
            return await _begin(agent, ctx, content)
        said = ctx.slot.take(content) if ctx.resumed else content
        if isinstance(said, SkillSlot):
            question = "\n".join(asked.message for asked in said.asks.values())
            return Turn(InputRequired(question, said), skill_id)
        return Turn(await agent.get_skill(skill_id).run(ctx, said), skill_id)
    except DragomanError as error:
        return Turn(Failed.of(error), skill_id)
    except BaseExceptionGroup as group:  # tools that ran side by side
        if (end := find_end(group)) is not None:
            raise end from group
        if not isinstance(group, Exception):
            raise
        log.exception("task %s could not be routed", ctx.task_id)
        return Turn(Failed("the agent failed; the log says why", "INTERNAL_ERROR"), skill_id)
    except Exception:  # an edge: a task never hangs on an exception
        log.exception("task %s could not be routed", ctx.task_id)
        return Turn(Failed("the agent failed; the log says why", "INTERNAL_ERROR"), skill_id)


async def _begin(agent: Agent, ctx: Context, content: Content) -> Turn:
    match await route(agent, ctx, content):
        case CallTool(skill, tool, arguments, how):
            await ctx.activity(Activity.AWAITING_TOOL, tool.name)
            given = await tool.call(arguments, ctx.for_tool())
            await ctx.activity(Activity.EXECUTING)
            if given.question is not None:
                return Turn(given.question, skill.id, how)
            if given.is_error and how is How.MODEL and given.code == InvalidInput.code:
                # The caller never wrote these arguments, and is the one who knows better ones.
                slot = SkillSlot({_ASKED_WHICH: _first_message(agent, ctx, content)})
                return Turn(InputRequired(f"I need to know more for that: {given.output}", slot), None, How.ASK)
            if given.is_error:
                return Turn(Failed(str(given.output), given.code, given.details, cause=given.cause), skill.id, how)
            return Turn(Completed(artifacts=[_artifact(tool.name, given)]), skill.id, how)
        case UseSkill(skill, how):
            wanted = _first_message(agent, ctx, content)
            return Turn(await skill.run(ctx.as_request(), wanted), skill.id, how)
        case AskCaller(question):
            slot = SkillSlot({_ASKED_WHICH: _first_message(agent, ctx, content)})
            return Turn(InputRequired(question, slot), None, How.ASK)


def _artifact(name: str, given: ToolResult) -> Artifact:
    if given.content is not None:
        return Artifact(name=name, content=given.content)
    return Artifact.from_json(name, given.output)


def _first_message(agent: Agent, ctx: Context, content: Content) -> Content:
    """What the skill is to work on: where the caller only picked a skill, what it said before that."""
    if ctx.resumed and is_plain_choice(agent, content.text):
        return ctx.slot.read(dict[str, Content])[_ASKED_WHICH]
    return content
