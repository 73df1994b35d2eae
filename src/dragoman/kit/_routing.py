"""Which skill answers: by name where it is plain, by the model where it is not, by a question where that fails."""

import json
import logging
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, cast

from pydantic import BaseModel, Field

from dragoman.errors import DragomanError, InvalidInput
from dragoman.kit._agent import Agent
from dragoman.kit._content import Content
from dragoman.kit._context import Context
from dragoman.kit._skill import Skill
from dragoman.kit._tool import Tool

log = logging.getLogger(__name__)
_SYSTEM = (
    "Choose the skill that should handle the user's message. If none fits or several do, choose none and ask the user "
    "one short question instead.\nSkills:\n{skills}"
)


class How(StrEnum):
    """How a skill was found; hosts count these."""

    TOOL = "tool"
    ONLY = "only_skill"
    NAME = "name"
    MODEL = "model"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class CallTool:
    """The message calls a tool by its name."""

    skill: Skill
    tool: Tool
    arguments: dict[str, Any]


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
    if len(agent.skills) == 1:
        return UseSkill(agent.skills[0], How.ONLY)
    named = [skill for skill in agent.skills if _names(skill, content.text)]
    if len(named) == 1:
        return UseSkill(named[0], How.NAME)
    return await _by_model(agent, ctx, content) if ctx.has_llm and content.text.strip() else _ask(agent)


def is_plain_choice(agent: Agent, text: str) -> bool:
    """Whether an answer says nothing but the name of a skill."""
    return any(text.strip().casefold() in (skill.id, skill.info.name.casefold()) for skill in agent.skills)


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


def _names(skill: Skill, text: str) -> bool:
    spoken = {skill.id, re.sub(r"[._-]", " ", skill.id), skill.info.name, *(tool.name for tool in skill.tools)}
    return any(re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w-])", text, re.IGNORECASE) for one in spoken)


async def _by_model(agent: Agent, ctx: Context, content: Content) -> Route:
    chooser = ctx.llm(_Choice, system=_SYSTEM.format(skills="\n".join(map(_told, agent.skills))))
    try:
        choice = await chooser.run(content.text)
    except DragomanError as error:
        log.warning("the model could not route task %s: %s", ctx.task_id, error.code)
        return _ask(agent)
    chosen = next((skill for skill in agent.skills if skill.id == choice.skill_id), None)
    if chosen is not None:
        return UseSkill(chosen, How.MODEL)
    return AskCaller(choice.question) if choice.question and choice.question.strip() else _ask(agent)


def _told(skill: Skill) -> str:
    tools = [{"name": tool.name, "description": tool.description, "input": tool.input_schema} for tool in skill.tools]
    told = {"id": skill.id, "name": skill.info.name, "description": skill.info.description, "tools": tools}
    return json.dumps(told)


def _ask(agent: Agent) -> AskCaller:
    offered = "\n".join(f"- {skill.id}: {skill.info.description}" for skill in agent.skills)
    return AskCaller(f"What is it about? I can help with:\n{offered}")
