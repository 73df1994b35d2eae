"""The server's own operations as skills beside those of the agent, for callers who say in words what they want."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from dragoman import kit
from dragoman.app.tools import GateTools
from dragoman.arguments import takes_secrets
from dragoman.operations import AnyOperation, Effect, Output
from dragoman.skills import FIRST_PARTY


class OperationSkill(kit.SkillHandler):
    """The operations of one noun. A model that finds the right one writes its arguments; the gate guards it as ever."""

    def __init__(self, noun: str, tools: Iterable[kit.Tool]) -> None:
        self.tools = list(tools)  # pyright: ignore[reportAttributeAccessIssue] an instance has its own
        words = "; ".join(tool.description for tool in self.tools)
        self.skill_info = kit.SkillInfo(noun, f"{noun.capitalize()}: {words}")  # pyright: ignore[reportAttributeAccessIssue] the same

    async def on_request(self, ctx: kit.Context, content: kit.Content) -> kit.OnRequestResult:
        """Say how it is used: nobody could tell which of its tools was meant."""
        del ctx, content
        names = ", ".join(tool.name for tool in self.tools)
        return kit.Rejected(
            f'say what is to be done, or send {{"tool": name, "arguments": {{...}}}} with one of {names}'
        )


SkillFactories = Mapping[str, Callable[[Iterable[kit.Tool]], kit.SkillHandler]]


def offered(tools: GateTools, agent: kit.Agent | None, plugged: SkillFactories) -> list[kit.Skill]:
    """Skills made of operations. Those that destroy, or deal with secrets, are left to callers who name them.

    `plugged` are the skills that plugins wrote for their operations.
    """
    factories = {**FIRST_PARTY, **plugged}
    skills = {skill.id for skill in agent.skills} if agent else set[str]()
    names = {tool.name for tool in agent.tools} if agent else set[str]()
    by_noun: dict[str, list[kit.Tool]] = {}
    for operation in tools:
        if _is_plain(operation) and operation.skill not in skills and operation.tool not in names:
            by_noun.setdefault(operation.skill, []).append(operation_tool(tools, operation))
    return [replace(kit.Skill.of(_skill(factories, noun, group)), hosted=True) for noun, group in by_noun.items()]


def _skill(factories: SkillFactories, noun: str, tools: list[kit.Tool]) -> kit.SkillHandler:
    return factories[noun](tools) if noun in factories else OperationSkill(noun, tools)


def _is_plain(operation: AnyOperation) -> bool:
    secret = takes_secrets(operation.input) or operation.output.without_secrets is not Output.without_secrets
    return operation.effect is not Effect.DESTRUCTIVE and not operation.sensitive and not secret


def operation_tool(tools: GateTools, operation: AnyOperation) -> kit.Tool:
    """An operation as a tool of kit: run through the gate, for the caller of the task."""

    async def invoke(arguments: dict[str, Any], ctx: kit.ToolContext) -> kit.ToolResult:
        if ctx.caller is None:
            raise kit.ToolError("nobody asked for it")
        # The task is the key: whoever runs it again after a crash finds that it was done.
        key = f"task:{ctx.task_id}:{ctx.call_id}" if ctx.call_id else f"task:{ctx.task_id}"
        return kit.ToolResult.success((await tools.run(ctx.caller, operation.tool, arguments, key=key)).shown)

    reads = operation.effect is Effect.READ
    return kit.Tool(
        operation.tool,
        operation.description or operation.summary,
        operation.input.model_json_schema(),
        invoke,
        annotations=kit.Annotations(read_only=reads, idempotent=reads),
    )
