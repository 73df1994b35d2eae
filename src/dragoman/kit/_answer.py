"""Skills that a model carries out by itself: with instructions, with tools, and a clear word on how it ended."""

from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel, Field

from dragoman.kit._content import Content
from dragoman.kit._context import Context
from dragoman.kit._results import Completed, Failed, InputRequired, OnInputResult
from dragoman.kit._slot import SkillSlot
from dragoman.kit._thread import Event, Thread
from dragoman.kit._tool import Tool

ASKED: Final = SkillSlot("answer")
_THREAD: Final = "kit.thread"
_HOW_TO_END = (
    "When you are done, answer with status complete. When only the user can tell you something that you need, "
    "answer with status needs_input and the question as the message. When it cannot be done, answer with status failed "
    "and why."
)


class Answer(BaseModel):
    """How the model ends its turn."""

    status: Literal["complete", "needs_input", "failed"]
    message: str = Field(min_length=1, description="For the user: the result, the question, or the reason.")


async def answer_by_model(
    ctx: Context, content: Content, *, tools: Sequence[Tool], instructions: str = ""
) -> OnInputResult:
    """Let the model work until it completes, asks or gives up; its conversation waits in task state."""
    kept = await ctx.state.task().load(_THREAD, Thread)
    thread = (ctx.thread if kept is None else kept).add_event(Event.user(content))
    system = "\n\n".join(part for part in (ctx.instructions, instructions, _HOW_TO_END) if part)
    answer, thread = await ctx.worker(Answer, tools=tools, system=system).run_and_continue(thread)
    match answer.status:
        case "needs_input":
            await ctx.state.task().save(_THREAD, thread)
            return InputRequired(answer.message, ASKED)
        case "failed":
            return Failed(answer.message)
        case "complete":
            return Completed(answer.message)
