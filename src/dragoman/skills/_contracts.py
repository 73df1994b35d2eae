"""Contracts in a conversation: a question in plain words is answered with the documents there are."""

from typing import Any, Final, cast

from dragoman.kit import Content, Context, OnRequestResult, skill
from dragoman.skills._hosted import HostedSkill

_LIST: Final = "document_list"


@skill(
    id="contracts",
    name="Contracts",
    description="Drafts contracts from templates, compares versions, and keeps what was signed and executed.",
    tags=["contracts", "documents", "tools"],
    examples=["Which documents are there?"],
    openings=["which documents", "what documents", "list documents", "list contracts", "contracts:"],
)
class ContractsSkill(HostedSkill):
    """The operations of contract work."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Say which documents there are, and how far each has come."""
        if ctx.has_llm:
            return await super().on_request(ctx, content)
        given = await self.use(ctx, _LIST, {})
        return self.ended(_LIST, given, _listed(given.output))


def _listed(output: Any) -> str:
    items = cast("dict[str, list[Any]]", output)["items"] if isinstance(output, dict) else list[Any]()
    lines = [f"- {one['title']} (version {one['version']}, {one['state']}): {one['id']}" for one in items]
    return "\n".join(lines) or "No documents."
