"""An agent that never knows whether its step was done, and asks a person."""

from dragoman.kit import Agent, Completed, Content, Context, EffectUnknown, OnRequestResult, SkillHandler, skill


@skill(id="pay", description="Pay for something, and lose the answer of the bank.")
class Pay(SkillHandler):
    """Asks whether it was paid, once."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Pay."""
        del content
        state = ctx.state.task()
        if await state.load("asked", bool):
            return Completed("paid")
        await state.save("asked", True)
        raise EffectUnknown("charge")


agent = Agent(name="payer", description="Pays.", skills=[Pay])
