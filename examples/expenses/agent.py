"""An agent that files expense claims: it reads a sentence, asks for what is missing, and keeps a total.

dragoman serve --agent examples.expenses.agent:agent
"""

from enum import StrEnum

from pydantic import BaseModel, Field

from dragoman.kit import (
    Agent,
    Artifact,
    Completed,
    Content,
    Context,
    Failed,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    Rejected,
    SkillHandler,
    SkillSlot,
    ToolContext,
    skill,
    tool,
)

LIMIT = 500.0
ON_PAPER = f"Claims above {LIMIT:.0f} euros need a form on paper."


class Claim(BaseModel):
    """What the model reads from a sentence."""

    what: str | None = Field(default=None, description="What was bought.")
    amount: float | None = Field(default=None, ge=0, description="How much it cost, in euros.")


class Missing(StrEnum):
    """What a claim can lack; also the bookmark of the question."""

    WHAT = "what"
    AMOUNT = "amount"


QUESTIONS = {Missing.WHAT: "What was it for?", Missing.AMOUNT: "How much was it, in euros?"}


@skill(
    id="expenses.claim",
    description="Turn a sentence into an expense claim, asking only for what is missing.",
    tags=["expenses"],
    examples=["Lunch with the client, 42 euros"],
)
class ClaimExpense(SkillHandler):
    """Reads a claim with the model; the rules are ours."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Read the sentence; refuse what the rules forbid."""
        claim = await ctx.llm(Claim).run(content)
        if (claim.amount or 0) > LIMIT:
            return Rejected(ON_PAPER)
        return await self._ask_or_file(ctx, claim)

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        """Put the answer where the question stood."""
        claim = await ctx.state.task().load("claim", Claim) or Claim()
        match ctx.slot.value:
            case Missing.AMOUNT:
                try:
                    claim = claim.model_copy(update={"amount": float(content.text.strip().removesuffix("euros"))})
                except ValueError:
                    return InputRequired("A number, please: how much was it?", ctx.slot)
            case Missing.WHAT:
                claim = claim.model_copy(update={"what": content.text})
            case unknown:
                return Failed(f"unknown slot {unknown!r}")
        return Failed(ON_PAPER) if (claim.amount or 0) > LIMIT else await self._ask_or_file(ctx, claim)

    async def _ask_or_file(self, ctx: Context, claim: Claim) -> OnInputResult:
        for missing, question in QUESTIONS.items():
            if getattr(claim, missing) is None:
                await ctx.state.task().save("claim", claim)
                return InputRequired(question, SkillSlot(missing))
        await ctx.progress.update("Filing the claim", percent=50)
        total = (await ctx.state.session().load("total", float) or 0.0) + (claim.amount or 0.0)
        await ctx.state.session().save("total", total)
        return Completed(f"Claimed {claim.amount:.2f} euros.", artifacts=[Artifact.from_json("claim", claim)])


@skill(id="expenses.report", description="Say what was claimed so far in this conversation, and what the rules are.")
class Report:
    """Only tools: callable by name, and by the model."""

    @tool(read_only=True)
    async def claimed_so_far(self, ctx: ToolContext) -> float:
        """The sum of the claims in this conversation, in euros."""
        return await ctx.state.session().load("total", float) or 0.0

    @tool(read_only=True)
    def may_claim(self, amount: float) -> bool:
        """Whether an amount in euros may be claimed without paper."""
        return amount <= LIMIT


agent = Agent(
    "expenses",
    "Files expense claims and keeps the total.",
    "1.0.0",
    instructions="You file expenses. Amounts are in euros.",
    skills=[ClaimExpense, Report],
)
