"""The agent of a server that asks another server."""

import os

from dragoman.kit import Agent, ToolContext
from dragoman.kit.toolsets import A2aAgentTool
from tests.kit.forwarding import Forward


async def credentials(ctx: ToolContext) -> dict[str, str]:
    assert ctx.caller is not None
    return {"authorization": f"Bearer {os.environ['REMOTE_TOKEN']}"}


remote = A2aAgentTool(os.environ["REMOTE_URL"], name="remote", description="Does it all.", headers=credentials)
agent = Agent("front", "Knows somebody who can do it.", skills=[Forward(remote)])
