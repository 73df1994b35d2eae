"""Which skill answers: by name where it is plain, by the model where it is not, by a question where that fails."""

import asyncio
import json
import logging
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

from pydantic import BaseModel, Field

from dragoman.errors import DragomanError, InvalidInput
from dragoman.kit._agent import Agent
from dragoman.kit._content import Content
from dragoman.kit._context import Context
from dragoman.kit._skill import Skill
from dragoman.kit._tool import Tool

log = logging.getLogger(__name__)
_SYSTEM: Final = (
    "Choose the skill that should handle the user's message. If one call of one of its tools does all that is asked, "
    "name the tool and write its arguments. If no skill fits or several do, choose none and ask the user one short "
    "question instead.\nSkills:\n{skills}"
)
_LONGEST_CHOICE_S: Final = 15.0


class How(StrEnum):
    """How a skill was found; hosts count these."""

    TOOL = "tool"
    ONLY = "only_skill"
    NAME = "name"
    MODEL = "model"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class CallTool:
    """A tool does it: the message names it, or the model chose it."""

    skill: Skill
    tool: Tool
    arguments: dict[str, Any]
    how: How = How.TOOL


@dataclass(frozen=True, slots=True)
class UseSkill:
    """A skill takes the message."""

    skill: Skill
    how: How


@dataclass(frozen=True, slots=True)
class AskCaller:
    """Nobody can tell; the caller is asked this."""

    question: str


Route: TypeAlias = CallTool | UseSkill | AskCaller


class _Choice(BaseModel):
    skill_id: str | None = Field(default=None, description="The id of the skill, or null when the user must be asked.")
    tool: str | None = Field(default=None, description="The name of the tool to call, or null.")
    arguments: str | None = Field(default=None, description="The arguments of that tool: a JSON object, as text.")
    question: str | None = Field(default=None, description="The question to ask when no skill is chosen.")


async def route(agent: Agent, ctx: Context, content: Content) -> Route:
    """Find who answers. An explicit tool call and a plain name never cost a model call.

    Raises:
        InvalidInput: an explicit tool call is malformed.
        ToolNotFound: an explicit tool call names no tool of the agent.
    """
    if (call := _explicit_call(content)) is not None:
        name, arguments = call
        skill, tool = agent.get_tool(name)
        return CallTool(skill, tool, arguments)
    own = [skill for skill in agent.skills if not skill.hosted]
    if len(own) == 1:
        return UseSkill(own[0], How.ONLY)
    named = [skill for skill in agent.skills if _is_opened(skill, content.text)]
    named = named or [skill for skill in own if _names(skill, content.text)]
    named = named or [skill for skill in agent.skills if _is_name(skill, content.text)]
    if len(named) == 1:
        return UseSkill(named[0], How.NAME)
    return await _by_model(agent, ctx, content) if agent.router and content.text.strip() else _ask(agent)


def is_plain_choice(agent: Agent, text: str) -> bool:
    """Whether an answer says nothing but the name of a skill."""
    return any(_is_name(skill, text) for skill in agent.skills)


def _explicit_call(content: Content) -> tuple[str, dict[str, Any]] | None:
    for value in content.data:
        if isinstance(value, dict) and "tool" in value:
            name, arguments = value["tool"], value.get("arguments", {})
            if not isinstance(name, str):
                raise InvalidInput.of("tool", "must be the name of a tool")
            if not isinstance(arguments, dict):
                raise InvalidInput.of("arguments", "must be an object")
            return name, cast("dict[str, Any]", arguments)
    return None


def _is_name(skill: Skill, text: str) -> bool:
    return text.strip().casefold() in (skill.id, skill.info.name.casefold())


def _is_opened(skill: Skill, text: str) -> bool:
    said = " ".join(text.split()).casefold()
    return any(re.match(rf"{re.escape(opening.casefold())}(?!\w)", said) for opening in skill.info.openings)


def _names(skill: Skill, text: str) -> bool:
    # A tool's name counts where nobody would say it by chance: `add_note`, not `buy`.
    tools = (tool.name for tool in skill.tools if "_" in tool.name)
    spoken = {skill.id, re.sub(r"[._-]", " ", skill.id), skill.info.name, *tools}
    return any(re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w-])", text, re.IGNORECASE) for one in spoken)


async def _by_model(agent: Agent, ctx: Context, content: Content) -> Route:
    system = _SYSTEM.format(skills="\n".join(map(_told, agent.skills)))
    chooser = ctx.llm(_Choice, system=system, on=agent.router)
    try:
        async with asyncio.timeout(_LONGEST_CHOICE_S):
            choice = await chooser.run(content.text)
    except (DragomanError, TimeoutError) as error:
        log.warning("the model could not route task %s: %s", ctx.task_id, getattr(error, "code", "TIMEOUT"))
        return _ask(agent)
    if (call := _chosen_call(agent, choice)) is not None:
        return call
    chosen = next((skill for skill in agent.skills if skill.id == choice.skill_id), None)
    if chosen is not None:
        return UseSkill(chosen, How.MODEL)
    return AskCaller(choice.question) if choice.question and choice.question.strip() else _ask(agent)


def _chosen_call(agent: Agent, choice: _Choice) -> CallTool | None:
    """The call that the model wrote, if it can be made; what destroys something is never called on its word."""
    found = next(((skill, tool) for skill in agent.skills for tool in skill.tools if tool.name == choice.tool), None)
    if found is None or found[1].annotations.destructive:
        return None
    try:
        arguments: object = json.loads(choice.arguments or "{}")
    except ValueError:
        return None
    return CallTool(*found, cast("dict[str, Any]", arguments), How.MODEL) if isinstance(arguments, dict) else None


def _told(skill: Skill) -> str:
    tools = [{"name": tool.name, "description": tool.description, "input": tool.input_schema} for tool in skill.tools]
    told = {"id": skill.id, "name": skill.info.name, "description": skill.info.description, "tools": tools}
    return json.dumps(told)


def _ask(agent: Agent) -> AskCaller:
    offered = "\n".join(f"- {skill.id}: {skill.info.description}" for skill in agent.skills)
    return AskCaller(f"What is it about? I can help with:\n{offered}")
