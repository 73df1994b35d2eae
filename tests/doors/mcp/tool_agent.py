"""An agent whose tools are those that the kit's scenarios of tasks call."""

import asyncio

from dragoman.kit import Agent, Completed, Content, Context, OnRequestResult, SkillHandler, ToolError, skill, tool


@tool(read_only=True)
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool
async def slow_compute(seconds: float, label: str = "") -> dict[str, str]:
    """Take that long."""
    await asyncio.sleep(seconds)
    return {"label": label}


@tool
async def failing_job() -> dict[str, str]:
    """Fail, in words."""
    raise ToolError("the job failed as it was asked to")


@tool
async def protocol_error_job() -> dict[str, str]:
    """Fail as nobody planned."""
    raise RuntimeError("a secret of the job")


@skill(id="jobs", description="Runs jobs.")
class Jobs(SkillHandler):
    """Has tools, and not much to say."""

    tools = (greet, slow_compute, failing_job, protocol_error_job)

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Say so."""
        del ctx
        return Completed(f"heard: {content.text}")


agent = Agent("Jobs", "Runs jobs.", "1.0.0", skills=[Jobs])
