"""A remote agent that performs actions for the installation, on a server of its own."""

from typing import Any

from dragoman.kit import Agent, Artifact, Completed, Content, Context, OnRequestResult, SkillHandler, skill
from tests.chaos.agent import Turn, Work


@skill(id="perform", description="Performs what another server hands over.")
class Perform(SkillHandler):
    """Acts once for each task, through the ledger of its own server."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        handed: Any = content.data[0]
        work = Work(name=handed["input"]["name"], for_s=0.1, act="ledger-find")
        return Completed("Done.", artifacts=[Artifact.from_json("done", await Turn(ctx, work).take())])


agent = Agent("partner", "Performs work for others.", "1.0.0", skills=[Perform])
