"""An agent that makes as much as it is asked for: `progress 1000 65536` is a thousand reports of 64 KB each."""

import asyncio

from dragoman.kit import (
    Agent,
    Artifact,
    Completed,
    Content,
    Context,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    Reply,
    SkillHandler,
    SkillSlot,
    skill,
)


@skill(id="heavy", description="Makes much.", tags=["load"], examples=["progress 10 100"])
class Heavy(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        what, count, size = content.text.split()
        if what == "together":
            await asyncio.gather(
                *(_show(ctx, "state", number, piece(number, int(size))) for number in range(int(count)))
            )
        for number in range(int(count)):
            await _show(ctx, what, number, piece(number, int(size)))
        return _result(what, piece(0, int(size)))

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        del ctx
        return Completed(content, artifacts=[Artifact.from_text("end", "ended")])


async def _show(ctx: Context, what: str, number: int, text: str) -> None:
    match what:
        case "progress":
            await ctx.progress.update(text)
        case "chunks":
            await ctx.progress.artifact(Artifact.from_text("log", text), append=number > 0)
        case "drafts":
            await ctx.progress.artifact(Artifact.from_text("page", text))
        case "question":
            await ctx.progress.artifact(Artifact.from_text("draft", "begun"))
        case "state" | "noted":
            await ctx.state.task().save(f"key-{number}", text)
        case "anew":
            await ctx.state.task().save("key", text)
        case _:
            pass


def _result(what: str, text: str) -> OnRequestResult:
    match what:
        case "question":
            return InputRequired(text, SkillSlot("go on"))
        case "reply" | "noted":
            return Reply(text)
        case "words":
            return Completed(text)
        case "file":
            return Completed(artifacts=[Artifact.from_file("file", "application/octet-stream", text.encode())])
        case "text":
            return Completed(artifacts=[Artifact.from_text("text", text)])
        case _:
            return Completed("done")


def piece(number: int, size: int) -> str:
    """One of its texts; much of it compresses to nothing."""
    return f"{number}:".ljust(size, "x")


agent = Agent("heavy", "Makes much.", "1.0.0", skills=[Heavy])
