"""A skill that lets another agent do all of its work."""

from dragoman.kit import Content, Context, OnInputResult, OnRequestResult, SkillHandler, skill
from dragoman.kit.toolsets import A2aAgentTool


@skill(id="forward", description="Hands everything on.")
class Forward(SkillHandler):
    def __init__(self, remote: A2aAgentTool) -> None:
        self._remote = remote

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        return await self._remote.forward(ctx, content)

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        return await self._remote.forward(ctx, content)
