"""An agent for the tests of its host: it tells what the host gave to it."""

from dragoman.kit import (
    Agent,
    Artifact,
    Completed,
    Content,
    Context,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    SkillHandler,
    SkillSlot,
    ToolContext,
    skill,
    tool,
)


@skill(id="diary", description="Keeps a diary.", tags=["writing"], examples=["Dear diary"])
class Diary(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        await ctx.state.task().save("draft", content.text)
        return InputRequired("Shall I keep it?", SkillSlot("keep"))

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        assert ctx.caller is not None
        draft = await ctx.state.task().load("draft", str) or ""
        pages = [*(await ctx.state.session().load("pages", list[str]) or []), f"{draft}: {content.text}"]
        await ctx.state.session().save("pages", pages)
        known = {"caller": ctx.caller.subject, "tenant": ctx.caller.tenant_slug, "instructions": ctx.instructions}
        return Completed("Kept.", artifacts=[Artifact.from_json("diary", known | {"pages": pages})])


@skill(id="notes", description="Keeps notes.")
class Notes:
    """The example of the guide."""

    @tool(idempotent=True)
    async def add_note(self, text: str, ctx: ToolContext) -> int:
        """Keep a note; gives how many there are."""
        notes = await ctx.state.session().update("notes", lambda notes: [*(notes or []), text])
        return len(notes)


agent = Agent("diarist", "Writes things down.", "2.1.0", instructions="Be discreet.", skills=[Diary])
notekeeper = Agent("notekeeper", "Keeps notes.", skills=[Notes])
