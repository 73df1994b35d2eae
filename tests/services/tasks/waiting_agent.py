"""An agent whose work goes on until a file is there, and which says for whom it worked."""

import asyncio
from pathlib import Path

from dragoman.kit import Agent, Completed, Content, Context, InputRequired, SkillHandler, SkillSlot, skill


@skill(id="waiting", description="Wait for the file that the message names; ask for it first when told to ask.")
class Waiting(SkillHandler):
    """Waits."""

    async def on_request(self, ctx: Context, content: Content) -> Completed | InputRequired:
        """Wait, or ask for the file."""
        if content.text == "ask":
            return InputRequired("Which file?", SkillSlot("file"))
        return await self.on_input_received(ctx, content)

    async def on_input_received(self, ctx: Context, content: Content) -> Completed:
        """Wait for the file."""
        await ctx.progress.update("waiting")
        while not await asyncio.to_thread(Path(content.text).exists):  # noqa: ASYNC110 - others make it
            await asyncio.sleep(0.02)
        assert ctx.caller is not None
        return Completed(f"{ctx.caller.subject} {sorted(role.value for role in ctx.caller.roles)}")


agent = Agent("waiting", "Waits for files.", skills=[Waiting])
