"""The tools that there are: one for each operation, one for each skill and each tool of the agent that is served."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.mcp.wire import Json
from dragoman.operations import AnyOperation, Effect, Passage
from dragoman.services.tasks.passages import SEND_MESSAGE

KEY_ARGUMENT: Final = "idempotency_key"
_MOST_KEPT: Final = 200
_MIRROR: Final = "x-mcp-header"
_KEY_SCHEMA: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "description": "Makes a repetition safe: the same key with the same input is done once.",
}
_SKILL_INPUT: Final[Json] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "text": {"type": "string", "description": "What is wanted, or the answer to what was asked."},
        "data": {"type": "object", "description": "The same for programs."},
        "task_id": {"type": "string", "description": "The task to go on with, when it has asked something."},
        KEY_ARGUMENT: _KEY_SCHEMA,
    },
}
_SKILL_OUTPUT: Final[Json] = {
    "type": "object",
    "required": ["task_id", "state", "text", "artifacts"],
    "properties": {
        "task_id": {"type": "string"},
        "state": {"type": "string", "description": "succeeded, or input_required: then answer with this task_id."},
        "text": {"type": "string"},
        "artifacts": {"type": "array", "items": {"type": "object"}},
    },
}


class _Untitled(GenerateJsonSchema):
    """A title that only repeats the name of a field costs tokens and says nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        del schema
        return False


@dataclass(frozen=True)
class OperationTool:
    """An operation; it answers at once."""

    operation: AnyOperation

    @property
    def name(self) -> str:
        """By which it is called."""
        return self.operation.tool

    @property
    def passage(self) -> AnyOperation:
        """What its caller must be allowed."""
        return self.operation

    @property
    def takes_key(self) -> bool:
        """Whether `idempotency_key` is for us and not for the operation."""
        return self.operation.writes and KEY_ARGUMENT not in self.operation.input.model_fields

    @cached_property
    def shown(self) -> Json:
        """As it is listed."""
        operation = self.operation
        given = operation.input.model_json_schema(schema_generator=_Untitled)
        if self.takes_key:
            given["properties"] = given.get("properties", {}) | {KEY_ARGUMENT: _KEY_SCHEMA}
        reads = operation.effect is Effect.READ
        described = f"{operation.summary}. {operation.description}".strip()
        return {
            "name": self.name,
            "title": operation.summary,
            "description": described,
            "inputSchema": given,
            "outputSchema": operation.output.model_json_schema(schema_generator=_Untitled, mode="serialization"),
            "annotations": {
                "readOnlyHint": reads,
                "destructiveHint": operation.effect is Effect.DESTRUCTIVE,
                "idempotentHint": reads,
                "openWorldHint": False,
            },
        }


@dataclass(frozen=True)
class SkillTool:
    """A skill of the agent; its work is a task."""

    skill: kit.Skill

    @property
    def name(self) -> str:
        """By which it is called."""
        return self.skill.id

    @property
    def passage(self) -> Passage:
        """What its caller must be allowed."""
        return SEND_MESSAGE

    @cached_property
    def shown(self) -> Json:
        """As it is listed."""
        info = self.skill.info
        return {
            "name": self.name,
            "title": info.name,
            "description": info.description,
            "inputSchema": _SKILL_INPUT,
            "outputSchema": _SKILL_OUTPUT,
        }


@dataclass(frozen=True)
class AgentTool:
    """A tool of one of the agent's skills; its work is a task, too."""

    tool: kit.Tool

    @property
    def name(self) -> str:
        """By which it is called."""
        return self.tool.name

    @property
    def passage(self) -> Passage:
        """What its caller must be allowed."""
        return SEND_MESSAGE

    @cached_property
    def shown(self) -> Json:
        """As it is listed."""
        hints = self.tool.annotations
        return {
            "name": self.name,
            "description": self.tool.description,
            "inputSchema": {"type": "object"} | self.tool.input_schema,
            "annotations": {
                "readOnlyHint": hints.read_only,
                "destructiveHint": hints.destructive,
                "idempotentHint": hints.idempotent,
            },
        }


AnyTool = OperationTool | SkillTool | AgentTool


class Catalogue:
    """All tools, and for each caller those that it may use."""

    def __init__(
        self,
        operations: Iterable[AnyOperation],
        agent: kit.Agent | None,
        *,
        may: Callable[[Caller, AnyOperation | Passage], bool],
    ) -> None:
        skills = agent.skills if agent else ()
        # Where names are the same, what stands further down is what is called: the server's own.
        tools: list[AnyTool] = [AgentTool(tool) for skill in skills for tool in skill.tools]
        tools += [SkillTool(skill) for skill in skills]
        tools += [OperationTool(operation) for operation in operations]
        named = {tool.name: tool for tool in tools}
        self._tools = dict(sorted(named.items()))
        operation_tools = [tool for tool in self._tools.values() if isinstance(tool, OperationTool)]
        self._skills = {tool.name: tool.operation.skill for tool in operation_tools}
        agent_tools = [tool.tool for tool in self._tools.values() if isinstance(tool, AgentTool)]
        self._varying = frozenset(tool.name for tool in agent_tools if not tool.for_all)
        self._mirrored = {tool.name: tool.input_schema for tool in agent_tools if _MIRROR in str(tool.input_schema)}
        self.may = may
        self._listed: dict[tuple[object, ...], list[Json]] = {}

    @property
    def varies(self) -> bool:
        """Whether some tool is there at times only, without anybody's saying when."""
        return bool(self._varying)

    def find(self, name: object) -> AnyTool | None:
        """The tool of this name."""
        return self._tools.get(name) if isinstance(name, str) else None

    def find_offered(self, name: str, caller: Caller) -> AnyTool | None:
        """The tool of this name, if it is there for this caller now."""
        tool = self._tools.get(name)
        return tool if tool is not None and _is_offered(tool, caller) else None

    def find_operation(self, name: str) -> AnyOperation | None:
        """The operation of this name, as `noun.verb`."""
        tool = self._tools.get(name.replace(".", "_"))
        return tool.operation if isinstance(tool, OperationTool) else None

    def find_mirrored(self, name: str) -> Mapping[str, Any] | None:
        """The input of a tool that has some of its arguments in headers, too."""
        return self._mirrored.get(name)

    def of_skill(self, caller: Caller, skill: str) -> list[Json]:
        """The operations of a skill that this caller may use, by name."""
        return [shown for shown in self._permitted(caller) if self._skills.get(shown["name"]) == skill]

    def others(self, caller: Caller, skills: Collection[str]) -> list[Json]:
        """What this caller may use now besides the operations of these skills."""
        return [shown for shown in self.listed(caller) if self._skills.get(shown["name"]) not in skills]

    def listed(self, caller: Caller) -> list[Json]:
        """What this caller may use now, by name."""
        listed = self._permitted(caller)
        if not self._varying:
            return listed
        hidden = {name for name in self._varying if not _is_offered(self._tools[name], caller)}
        return [shown for shown in listed if shown["name"] not in hidden]

    def _permitted(self, caller: Caller) -> list[Json]:
        # All that a policy can see of a caller; those who look alike to it get the same list.
        kind = (caller.roles, caller.scopes, caller.type)
        listed = self._listed.get(kind)
        if listed is None:
            listed = [tool.shown for tool in self._tools.values() if self.may(caller, tool.passage)]
            if len(self._listed) >= _MOST_KEPT:
                self._listed.pop(next(iter(self._listed)))
            self._listed[kind] = listed
        return listed

    @property
    def permissions(self) -> list[str]:
        """Every scope that some tool asks for."""
        return sorted({tool.passage.permission for tool in self._tools.values()})


def _is_offered(tool: AnyTool, caller: Caller) -> bool:
    return not isinstance(tool, AgentTool) or tool.tool.is_offered(caller)
