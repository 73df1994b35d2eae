"""The agent that conformance kits ask for: what it does is chosen by a prefix of the message's id, or of its text.

PYTHONPATH=examples/conformance dragoman serve --agent agent:agent
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from dragoman.kit import (
    Agent,
    Artifact,
    AuthRequired,
    Completed,
    Content,
    Context,
    Failed,
    FilePart,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    Rejected,
    Reply,
    SkillHandler,
    SkillSlot,
    skill,
)

Behaviour = Callable[[Context, Content], Awaitable[OnRequestResult]]
_FILE = b"Generated file content\n"


def _text_file(name: str = "output.txt") -> Artifact:
    return Artifact.from_file(name, "text/plain", _FILE)


async def complete(ctx: Context, content: Content) -> OnRequestResult:
    """What every message gets that asks for nothing else."""
    del ctx, content
    return Completed("Hello from TCK", artifacts=[Artifact.from_text("answer", "Hello from TCK")])


async def fail(ctx: Context, content: Content) -> OnRequestResult:
    """End badly."""
    del ctx, content
    return Failed("the task failed as it was asked to")


async def crash(ctx: Context, content: Content) -> OnRequestResult:
    """Do what nobody planned for."""
    raise RuntimeError(f"secret of {ctx.task_id}: {content.text}")


async def reject(ctx: Context, content: Content) -> OnRequestResult:
    """Refuse."""
    del ctx, content
    return Rejected("rejected")


async def reply(ctx: Context, content: Content) -> OnRequestResult:
    """Answer with a message, without a task."""
    del ctx, content
    return Reply("Direct message response")


async def ask_for_auth(ctx: Context, content: Content) -> OnRequestResult:
    """Wait for somebody to sign in."""
    await ctx.state.task().save("first", content.text)
    return AuthRequired(
        "Please sign in at https://example.com/sign-in, then say that you are done.", SkillSlot("signed-in")
    )


async def ask(ctx: Context, content: Content) -> OnRequestResult:
    """Ask until somebody is done."""
    await ctx.state.task().save("first", content.text)
    return InputRequired("What else?", SkillSlot("more"))


async def echo(ctx: Context, content: Content) -> OnRequestResult:
    """What was said, as it was said."""
    del ctx
    return Completed(content, artifacts=[Artifact(name="echo", content=content)])


async def make_text(ctx: Context, content: Content) -> OnRequestResult:
    """A text."""
    del ctx, content
    return Completed(artifacts=[Artifact.from_text("text", "Generated text content", mime="text/plain")])


async def make_file(ctx: Context, content: Content) -> OnRequestResult:
    """A file."""
    del ctx, content
    return Completed(artifacts=[_text_file()])


async def make_file_url(ctx: Context, content: Content) -> OnRequestResult:
    """A file by its address."""
    del ctx, content
    part = FilePart(name="output.txt", mime="text/plain", uri="https://example.com/output.txt")
    return Completed(artifacts=[Artifact(name="output.txt", content=Content(parts=(part,)))])


async def make_data(ctx: Context, content: Content) -> OnRequestResult:
    """Data."""
    del ctx, content
    return Completed(artifacts=[Artifact.from_json("data", {"key": "value", "count": 42}, mime="application/json")])


async def stream_text(ctx: Context, content: Content) -> OnRequestResult:
    """A text while it works."""
    await ctx.progress.update("working", 50)
    await ctx.progress.artifact(Artifact.from_text("stream", f"Streamed: {content.text}"))
    return Completed("done")


async def stream_file(ctx: Context, content: Content) -> OnRequestResult:
    """A file while it works."""
    del content
    await ctx.progress.artifact(_text_file())
    return Completed("done")


async def stream_chunks(ctx: Context, content: Content) -> OnRequestResult:
    """A text in pieces; `count=N` in the message says how many."""
    count = next((int(word[6:]) for word in content.text.split() if word.startswith("count=")), 2)
    for number in range(1, count + 1):
        piece = Artifact.from_text("chunked", f"chunk-{number} ")
        await ctx.progress.artifact(piece, append=number > 1, last_chunk=number == count)
    return Completed("done")


async def stay_busy(ctx: Context, content: Content) -> OnRequestResult:
    """Work for a while: as long as `seconds=N` in the message says, or CONFORMANCE_STAY_S, or what kits count on.

    `until=FILE` works on until that file is there.
    """
    asked = dict(word.split("=", 1) for word in content.text.split() if "=" in word)
    seconds = float(asked.get("seconds") or os.environ.get("CONFORMANCE_STAY_S", "5"))
    steps = 10
    for step in range(steps):
        await ctx.progress.update(f"step {step + 1} of {steps}", 100 * step / steps)
        await asyncio.sleep(seconds / steps)
    while "until" in asked and not await asyncio.to_thread(Path(asked["until"]).exists):  # noqa: ASYNC110 - others make it
        await asyncio.sleep(0.02)
    return Completed("done", artifacts=[Artifact.from_text("result", "It took a while.")])


async def draft(ctx: Context, content: Content) -> OnRequestResult:
    """Show something, then work on."""
    await ctx.progress.artifact(Artifact.from_text("draft", "A first idea."))
    return await stay_busy(ctx, content)


async def wait_for_cancel(ctx: Context, content: Content) -> OnRequestResult:
    """Work until somebody stops it."""
    del ctx, content
    await asyncio.sleep(600)
    return Completed("nobody cancelled it")


# The longest prefix that fits decides.
BEHAVIOURS: dict[str, Behaviour] = {
    "tck-complete-task": complete,
    "tck-task-failure": fail,
    "tck-crash": crash,
    "tck-reject": reject,
    "tck-message-response": reply,
    "tck-auth-required": ask_for_auth,
    "tck-input-required": ask,
    "tck-multi-turn": ask,
    "tck-echo": echo,
    "tck-artifact-text": make_text,
    "tck-artifact-file": make_file,
    "tck-artifact-file-url": make_file_url,
    "tck-artifact-data": make_data,
    "tck-stream": stream_text,
    "tck-stream-002": complete,
    "tck-stream-artifact-file": stream_file,
    "tck-stream-artifact-chunked": stream_chunks,
    "tck-stream-chunked": stream_chunks,
    "tck-long-running": stay_busy,
    "test-resubscribe-message-id": stay_busy,
    "tck-draft": draft,
    "tck-cancel": wait_for_cancel,
}


@skill(
    id="conformance",
    description="Does what the prefix of a message says, so that conformance kits can watch.",
    tags=["conformance"],
    examples=["tck-complete-task hello"],
)
class Conformance(SkillHandler):
    """Chooses by prefix."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Find the behaviour."""
        for name in (content.text.strip(), ctx.message_id or ""):
            fitting = [prefix for prefix in BEHAVIOURS if name.startswith(prefix)]
            if fitting:
                return await BEHAVIOURS[max(fitting, key=len)](ctx, content)
        return await complete(ctx, content)

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        """Go on until the answer says that it is done."""
        first = await ctx.state.task().load("first", str)
        if "done" in content.text.lower() or (ctx.message_id or "").startswith("tck-complete-task"):
            return Completed(
                "Thank you.", artifacts=[Artifact.from_json("talk", {"first": first, "last": content.text})]
            )
        return InputRequired("And what else?", SkillSlot("more"))


agent = Agent("Conformance", "Answers as conformance kits expect.", "1.0.0", skills=[Conformance])
