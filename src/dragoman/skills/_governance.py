"""Governance in a conversation: a question in plain words is answered with what is in force."""

from typing import Any, Final, cast

from dragoman.kit import Content, Context, OnRequestResult, skill
from dragoman.skills._hosted import HostedSkill

_POLICIES: Final = "governance_policies"


@skill(
    id="governance",
    name="Governance",
    description="Holds changes and actions against the policies in force, and says how far a project has drifted.",
    tags=["governance", "policy", "tools"],
    examples=["Which policies are in force?"],
    openings=["which policies", "what policies", "which rules", "governance:"],
)
class GovernanceSkill(HostedSkill):
    """The operations of governance."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Say what is in force."""
        if ctx.has_llm:
            return await super().on_request(ctx, content)
        given = await self.use(ctx, _POLICIES, {})
        return self.ended(_POLICIES, given, _listed(given.output))


def _listed(output: Any) -> str:
    rules = cast("dict[str, list[Any]]", output)["rules"] if isinstance(output, dict) else list[Any]()
    lines = [f"- {one['policy_id']}: {one['constraint']} ({one['severity']})" for one in rules]
    return "\n".join(lines) or "No policies."
