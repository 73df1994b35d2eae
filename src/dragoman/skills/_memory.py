"""Memory in a conversation: plain words are remembered or looked up, and an update that fits several memories asks."""

import re
from collections.abc import Iterable
from typing import Any, Final, cast

from dragoman.kit import (
    Content,
    Context,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    SkillSlot,
    Tool,
    ToolContext,
    ToolResult,
    skill,
)
from dragoman.skills._hosted import HostedSkill

_ADD, _SEARCH, _UPDATE = "memory_add", "memory_search", "memory_update"
_AMBIGUOUS: Final = "AMBIGUOUS"
_REMEMBER: Final = re.compile(r"(?:please\s+)?(?:remember|memori[sz]e)(?:\s+that)?[\s:,]+(?P<fact>.+)", re.I | re.S)
_RECALL: Final = re.compile(
    r"(?:recall|what do you (?:remember|know)(?:\s+about)?|memory\s*:)[\s:,]*(?P<asked>.+)", re.I | re.S
)


@skill(
    id="memory",
    name="Memory",
    description="Remembers facts in layers, finds them by meaning and by words, corrects and forgets them.",
    tags=["memory", "tools"],
    examples=["Remember that the demo is on Friday.", "What do you remember about the demo?"],
    openings=["remember", "please remember", "memorize", "memorise", "recall", "what do you remember", "memory:"],
)
class MemorySkill(HostedSkill):
    """The operations of memory, and the question that one of them may have."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        given = list(tools)
        self._plain = {tool.name: tool for tool in given}
        super().__init__(self._asking(tool) if tool.name == _UPDATE else tool for tool in given)

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Remember what is to be remembered; look up everything else."""
        said = content.text.strip()
        if (told := _REMEMBER.fullmatch(said)) is not None and self.has(_ADD):
            given = await self.use(ctx, _ADD, {"content": told["fact"].strip()})
            return self.ended(_ADD, given, "Remembered.")
        if ctx.has_llm:
            return await super().on_request(ctx, content)
        asked = _RECALL.fullmatch(said)
        return await self._recall(ctx, (asked["asked"] if asked else said).strip(" ?"))

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        """The answer to which memory was meant; what is no answer is asked again."""
        match ctx.slot.value:
            case {"tool": str(name), "arguments": dict(arguments), "candidates": list(candidates)}:
                known = cast("list[dict[str, Any]]", candidates)
                if (chosen := _chosen(content, known)) is None:
                    return _question(name, arguments, known, "I cannot tell which one that is.")
                clear = {key: value for key, value in arguments.items() if key not in ("query", "layers", "ids")}
                given = await self._plain[name].call({**clear, "memory_id": chosen}, ctx.for_tool())
                return self.ended(name, given)
            case _:
                return await super().on_input_received(ctx, content)

    async def _recall(self, ctx: Context, query: str) -> OnInputResult:
        given = await self.use(ctx, _SEARCH, {"query": query})
        output = given.output
        found = cast("dict[str, list[Any]]", output)["results"] if isinstance(output, dict) else list[Any]()
        lines = [f"- {one['content']} ({one['layer']})" for one in found]
        return self.ended(_SEARCH, given, "\n".join(lines) or "I remember nothing of that.")

    def _asking(self, update: Tool) -> Tool:
        """The same tool, which asks where the operation finds several memories."""

        async def invoke(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
            given = await update.call(arguments, ctx)
            if given.details.get("reason") != _AMBIGUOUS:
                return given
            candidates = cast("list[dict[str, Any]]", given.details.get("candidates"))
            return ToolResult.ask(_question(update.name, arguments, candidates))

        return Tool(
            update.name,
            update.description,
            update.input_schema,
            invoke,
            annotations=update.annotations,
            may_ask=True,
        )


def _question(
    tool: str, arguments: dict[str, Any], candidates: list[dict[str, Any]], before: str = ""
) -> InputRequired:
    lines = [f"{place}. {one['content']} ({one['layer']})" for place, one in enumerate(candidates, 1)]
    words = "\n".join([*([before] if before else []), "Which of these do you mean? Answer with its number.", *lines])
    slot = SkillSlot({"tool": tool, "arguments": arguments, "candidates": candidates})
    return InputRequired(Content.of([words, {"candidates": candidates}]), slot)


def _chosen(content: Content, candidates: list[dict[str, Any]]) -> str | None:
    """By its id in data, by its number, its id, or words that only one of them has."""
    ids = [str(one["memory_id"]) for one in candidates]
    for value in content.data:
        if isinstance(value, dict) and str(value.get("memory_id")) in ids:
            return str(value["memory_id"])
    said = content.text.strip().strip(".#").casefold()
    if said.isascii() and said.isdigit():
        place = int(said)
        return ids[place - 1] if 1 <= place <= len(ids) else None
    if said in ids:
        return said
    fitting = [str(one["memory_id"]) for one in candidates if said and said in str(one["content"]).casefold()]
    return fitting[0] if len(fitting) == 1 else None
