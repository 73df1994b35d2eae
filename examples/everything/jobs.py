"""Tools whose work takes a while, or ends badly."""

import asyncio

from dragoman.kit import ToolError, skill, tool


@skill(id="jobs", description="Runs jobs.")
class Jobs:
    """Has tools, and not much to say."""

    @tool(read_only=True)
    async def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    @tool
    async def slow_compute(self, seconds: float, label: str = "") -> dict[str, str]:
        """Take that long."""
        await asyncio.sleep(seconds)
        return {"label": label}

    @tool(needs=["task"])
    async def failing_job(self) -> dict[str, str]:
        """Fail, in words, to those who follow it."""
        raise ToolError("the job failed as it was asked to")

    @tool
    async def protocol_error_job(self) -> dict[str, str]:
        """Fail as nobody planned."""
        raise RuntimeError("a secret of the job")
