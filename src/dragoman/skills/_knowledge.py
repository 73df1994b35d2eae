"""Knowledge in a conversation: a question in plain words is a query."""

import re
from typing import Any, Final, cast

from dragoman.kit import Content, Context, OnRequestResult, skill
from dragoman.skills._hosted import HostedSkill

_QUERY: Final = "knowledge_query"
_ASKED: Final = re.compile(
    r"(?:what do we know about|what (?:was|did we) decided? (?:about|on)|which decisions? (?:about|on)|knowledge\s*:)"
    r"[\s:,]*(?P<asked>.+)",
    re.I | re.S,
)


@skill(
    id="knowledge",
    name="Knowledge",
    description="Keeps decisions, policies, patterns and specs in git, answers from them, and checks changes by them.",
    tags=["knowledge", "adr", "tools"],
    examples=["What do we know about databases?"],
    openings=["what do we know about", "what did we decide", "what was decided", "which decision", "knowledge:"],
)
class KnowledgeSkill(HostedSkill):
    """The operations of knowledge."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Look it up."""
        if ctx.has_llm:
            return await super().on_request(ctx, content)
        said = content.text.strip()
        asked = _ASKED.fullmatch(said)
        given = await self.use(ctx, _QUERY, {"query": (asked["asked"] if asked else said).strip(" ?")})
        return self.ended(_QUERY, given, _listed(given.output))


def _listed(output: Any) -> str:
    items = cast("dict[str, list[Any]]", output)["items"] if isinstance(output, dict) else list[Any]()
    return "\n".join(f"- {one['title']} ({one['status']} {one['type']} {one['id']})" for one in items) or "Nothing yet."
