# ruff: noqa: ARG002 a handler takes its context and its content, also where it needs neither
import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import BaseModel

from dragoman.errors import Conflict, NotFound
from dragoman.kit import (
    Activity,
    ActivityChanged,
    Artifact,
    ArtifactShown,
    Completed,
    Content,
    Context,
    Failed,
    InMemoryTasks,
    InputRequired,
    InvalidTransition,
    OnInputResult,
    OnRequestResult,
    ProgressMade,
    Rejected,
    SkillHandler,
    SkillSlot,
    StatusChanged,
    TaskState,
    skill,
)
from dragoman.kit.testing import RecordingTool, ScriptedLlm, call, run_skill, runtime_of
from tests.patience import PATIENCE_S


class Trip(BaseModel):
    to: str
    days: int | None = None


@skill(id="travel", description="Book a flight.")
class Book(SkillHandler):
    """Seed 002's example: it saves its work, asks at a slot, and goes on there."""

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        if content.text == "to the moon":
            return Rejected("nobody flies there")
        await ctx.state.task().save("trip", Trip(to=content.text))
        return InputRequired("How many days?", SkillSlot("days"))

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        trip = await ctx.state.task().load("trip", Trip)
        if trip is None or ctx.slot != SkillSlot("days"):
            return Failed("lost")
        if not content.text.isdigit():
            return InputRequired("A number, please.", ctx.slot)
        booked = trip.model_copy(update={"days": int(content.text)})
        count = (await ctx.state.session().load("trips", int) or 0) + 1
        await ctx.state.session().save("trips", count)
        return Completed(f"trip {count}", artifacts=[Artifact.from_json("trip", booked)])


@pytest.mark.req("KIT-8")
async def test_a_question_is_resumed_at_its_slot_with_the_work_so_far() -> None:
    async with runtime_of(Book) as runtime:
        asked = await runtime.send("Paris")
        again = await runtime.send("a few", task_id=asked.id)
        done = await runtime.send("3", task_id=asked.id)

    assert (asked.state, asked.text) == (TaskState.INPUT_REQUIRED, "How many days?")
    assert (again.state, again.text) == (TaskState.INPUT_REQUIRED, "A number, please.")
    assert (done.state, done.text) == (TaskState.COMPLETED, "trip 1")
    assert done.artifacts == (Artifact.from_json("trip", Trip(to="Paris", days=3)),)
    assert [event.text for event in done.history] == [
        "Paris",
        "How many days?",
        "a few",
        "A number, please.",
        "3",
        "trip 1",
    ]


@pytest.mark.req("KIT-4")
async def test_state_and_events_are_kept_by_the_store_so_that_another_runtime_and_handler_go_on() -> None:
    tasks, first = InMemoryTasks(), Book()
    async with runtime_of(first, tasks=tasks) as runtime:
        paris = await runtime.send("Paris")
        rome = await runtime.send("Rome")

    async with runtime_of(Book(), tasks=tasks) as restarted:
        done = await restarted.send("3", task_id=paris.id)
        other = await restarted.send("5", task_id=rome.id)
        told = [event async for event in restarted.subscribe(paris.id)]

    assert vars(first) == {}
    assert done.artifacts[0].content.data == ({"to": "Paris", "days": 3},)
    assert other.artifacts[0].content.data == ({"to": "Rome", "days": 5},)
    assert [event.seq for event in told] == [1, 2, 3, 4, 5]
    assert [event.state for event in told if isinstance(event, StatusChanged)] == [
        TaskState.PROCESSING,
        TaskState.INPUT_REQUIRED,
        TaskState.PROCESSING,
        TaskState.COMPLETED,
    ]


async def test_session_state_is_shared_by_the_tasks_of_one_conversation_alone() -> None:
    async with runtime_of(Book) as runtime:
        texts: list[str] = []
        for context in ("one", "one", "two"):
            asked = await runtime.send("Paris", context_id=context)
            texts.append((await runtime.send("1", task_id=asked.id)).text)

    assert texts == ["trip 1", "trip 2", "trip 1"]


MADE = (Artifact.from_json("data", {"a": 1}), Artifact.from_file("photo", "image/png", b"\x89PNG"))


class Ends(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        for made in MADE:
            await ctx.progress.artifact(made)
        ends: dict[str, OnRequestResult] = {
            "complete": Completed("ok"),
            "fail": Failed("no", "NO_MONEY", {"need": 5}),
            "reject": Rejected("never"),
            "ask": InputRequired("?", SkillSlot("x")),
        }
        return ends[content.text]

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        return Completed("answered")


@pytest.mark.req("KIT-6", "KIT-10")
@pytest.mark.parametrize(
    ("said", "state", "artifacts", "code"),
    [
        ("complete", TaskState.COMPLETED, MADE, None),
        ("fail", TaskState.FAILED, (), "NO_MONEY"),
        ("reject", TaskState.REJECTED, (), "SKILL_REJECTED"),
        ("ask", TaskState.INPUT_REQUIRED, (), None),
        ("boom", TaskState.FAILED, (), "INTERNAL_ERROR"),
    ],
)
async def test_the_result_decides_the_state_and_only_completion_finalises_artifacts(
    said: str, state: TaskState, artifacts: tuple[Artifact, ...], code: str | None
) -> None:
    task = await run_skill(skill(id="ends", description="Ends.")(Ends), said)

    assert task.state is state
    assert task.artifacts == artifacts
    assert (task.error.code if task.error else None) == code


async def test_a_draft_of_an_earlier_turn_is_final_when_the_task_completes() -> None:
    task = await run_skill(skill(id="ends", description="Ends.")(Ends), "ask", "x")

    assert (task.state, task.artifacts) == (TaskState.COMPLETED, MADE)


@skill(id="listener", description="Notes what it is told.")
class Listener(Ends):
    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        if content.text == "hang":
            await asyncio.Event().wait()
        return await super().on_request(ctx, content)

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        self.heard.append(content.text)
        return await super().on_input_received(ctx, content)


@pytest.mark.req("KIT-7")
async def test_only_a_task_that_waits_for_input_takes_an_answer() -> None:
    listener = Listener()
    async with runtime_of(listener) as runtime:
        others = [await runtime.send(said) for said in ("complete", "fail", "reject")]
        others += [await runtime.start("hang"), await runtime.cancel((await runtime.send("ask")).id)]
        asked = await runtime.send("ask")

        refused: list[object] = []
        for task in others:
            with pytest.raises(InvalidTransition) as caught:
                await runtime.send("please", task_id=task.id)
            refused.append(caught.value.details["current"])
            assert await runtime.get(task.id) == task
        answered = await runtime.send("yes", task_id=asked.id)

    assert {*refused, asked.state, TaskState.IDLE} == set(TaskState)
    assert answered.state is TaskState.COMPLETED
    assert listener.heard == ["yes"]


async def test_unknown_tasks_and_wrong_conversations_are_refused() -> None:
    async with runtime_of(Book) as runtime:
        asked = await runtime.send("Paris")

        with pytest.raises(NotFound):
            await runtime.send("x", task_id="nope")
        with pytest.raises(NotFound):
            await runtime.cancel("nope")
        with pytest.raises(Conflict):
            await runtime.send("3", task_id=asked.id, context_id="another")


async def test_a_skill_sees_what_was_said_before_in_the_conversation() -> None:
    @skill(id="memory", description="Remembers.")
    class Memory(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            return Completed(" ".join(event.text for event in ctx.thread) or "nothing")

    async with runtime_of(Memory) as runtime:
        first = await runtime.send("a")
        second = await runtime.send("b", context_id=first.context_id)

    assert (first.text, second.text) == ("nothing", "a nothing")


@skill(id="hang", description="Hangs.")
class Hang(SkillHandler):
    def __init__(self, *, stubborn: bool = False) -> None:
        self.started, self.seen_cancelled, self._stubborn = asyncio.Event(), asyncio.Event(), stubborn

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ctx.cancelled:
                self.seen_cancelled.set()
            if not self._stubborn:
                raise
        return Completed("too late")


@pytest.mark.parametrize("stubborn", [False, True])
async def test_cancel_really_cancels_and_a_late_result_is_thrown_away(stubborn: bool) -> None:
    handler = Hang(stubborn=stubborn)
    async with runtime_of(handler) as runtime, asyncio.timeout(PATIENCE_S):
        task = await runtime.start("go")
        await handler.started.wait()

        cancelled = await runtime.cancel(task.id)

        assert handler.seen_cancelled.is_set()
        assert cancelled.state is TaskState.CANCELLED
        assert (await runtime.get(task.id)).message is None
        with pytest.raises(InvalidTransition):
            await runtime.cancel(task.id)


async def test_a_question_can_be_cancelled() -> None:
    async with runtime_of(Book) as runtime:
        asked = await runtime.send("Paris")

        assert (await runtime.cancel(asked.id)).state is TaskState.CANCELLED


async def test_a_task_that_is_busy_takes_no_second_message() -> None:
    handler = Hang()
    async with runtime_of(handler) as runtime, asyncio.timeout(PATIENCE_S):
        task = await runtime.start("go")
        await handler.started.wait()

        with pytest.raises(InvalidTransition):
            await runtime.send("more", task_id=task.id)


async def test_closing_the_runtime_cancels_what_runs() -> None:
    handler, tasks = Hang(), InMemoryTasks()
    async with asyncio.timeout(PATIENCE_S), runtime_of(handler, tasks=tasks) as runtime:
        task = await runtime.start("go")
        await handler.started.wait()

    assert tasks.get(task.id).state is TaskState.CANCELLED


async def test_a_sender_that_leaves_does_not_stop_the_task() -> None:
    handler = Hang()
    async with runtime_of(handler) as runtime, asyncio.timeout(PATIENCE_S):
        sender = asyncio.create_task(runtime.send("go", context_id="c"))
        await handler.started.wait()
        sender.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sender

        assert not handler.seen_cancelled.is_set()


@skill(id="busy", description="Shows all it does.")
class Busy(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        await ctx.progress.update("working", 10)
        await ctx.progress.artifact(Artifact.from_text("poem", "roses"), last_chunk=False)
        await ctx.progress.artifact(Artifact.from_text("poem", "violets"), append=True)
        await ctx.worker(str, tools=[RecordingTool("look")]).run("look")
        return Completed("done")


async def test_a_subscriber_sees_every_event_in_order_and_replays_without_loss() -> None:
    async with runtime_of(Busy, llm=ScriptedLlm(call("look"), "seen")) as runtime, asyncio.timeout(PATIENCE_S):
        task = await runtime.start("go")
        live = [event async for event in runtime.subscribe(task.id)]
        replayed = [event async for event in runtime.subscribe(task.id, after=4)]
        done = await runtime.get(task.id)

    pieces = [Artifact.from_text("poem", "roses"), Artifact.from_text("poem", "violets")]
    whole = Artifact.joined(pieces)
    assert live == [
        StatusChanged(1, TaskState.PROCESSING),
        ProgressMade(2, "working", 10),
        ArtifactShown(3, pieces[0], append=False, last_chunk=False, final=False),
        ArtifactShown(4, pieces[1], append=True, last_chunk=True, final=False),
        ActivityChanged(5, Activity.AWAITING_TOOL, ("look",)),
        ActivityChanged(6, Activity.EXECUTING, ()),
        ArtifactShown(7, whole, append=False, last_chunk=True, final=True),
        StatusChanged(8, TaskState.COMPLETED, Content.of("done")),
    ]
    assert replayed == live[4:]
    assert done.artifacts == (whole,)


async def test_a_subscription_ends_at_a_question_and_goes_on_after_the_answer() -> None:
    async with runtime_of(Book) as runtime, asyncio.timeout(PATIENCE_S):
        asked = await runtime.send("Paris")
        first = [event async for event in runtime.subscribe(asked.id)]
        await runtime.send("3", task_id=asked.id)
        rest = [event async for event in runtime.subscribe(asked.id, after=first[-1].seq)]

    def states(events: list[Any]) -> list[TaskState]:
        return [event.state for event in events if isinstance(event, StatusChanged)]

    assert states(first) == [TaskState.PROCESSING, TaskState.INPUT_REQUIRED]
    assert states(rest) == [TaskState.PROCESSING, TaskState.COMPLETED]


async def test_a_subscriber_that_leaves_harms_nobody() -> None:
    handler = Hang()
    async with runtime_of(handler) as runtime, asyncio.timeout(PATIENCE_S):
        task = await runtime.start("go")
        async with aclosing(runtime.subscribe(task.id)) as events:
            await anext(events)
        others = asyncio.create_task(anext(runtime.subscribe(task.id, after=1)))
        await handler.started.wait()
        await runtime.cancel(task.id)

        assert await others == StatusChanged(2, TaskState.CANCELLED)


async def test_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    @skill(id="careless", description="Awaits what was cancelled.")
    class Careless(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            lost = asyncio.get_running_loop().create_future()
            lost.cancel()
            await lost
            return Completed()

    task = await run_skill(Careless, "go")

    assert task.state is TaskState.FAILED
    assert task.error is not None
    assert task.error.code == "INTERNAL_ERROR"


async def test_many_tasks_run_side_by_side_without_mixing() -> None:
    async with runtime_of(Book) as runtime:
        asked = await asyncio.gather(*(runtime.send(f"town {n}") for n in range(50)))
        done = await asyncio.gather(*(runtime.send(str(n), task_id=task.id) for n, task in enumerate(asked)))

    assert [task.artifacts[0].content.data for task in done] == [({"to": f"town {n}", "days": n},) for n in range(50)]


async def test_turns_of_one_context_run_one_after_another_in_the_order_they_were_sent() -> None:
    """Without it, each would read the state that the others had not written yet."""

    @skill(id="count", description="Counts.")
    class Count(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            seen = await ctx.state.session().load("seen", list[str]) or []
            await asyncio.sleep(0)
            await ctx.state.session().save("seen", [*seen, content.text])
            return Completed(f"{len(ctx.thread)}")

    async with runtime_of(Count) as runtime:
        tasks = await asyncio.gather(*(runtime.send(str(number), context_id="c") for number in range(20)))
        conversation = [event.text for event in (await runtime.send("last", context_id="c")).history]

    assert [task.text for task in tasks] == [str(2 * number) for number in range(20)]
    assert conversation == ["last", "40"]


async def test_a_turn_that_waits_for_its_conversation_can_be_cancelled() -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    @skill(id="slow", description="Waits.")
    class Slow(SkillHandler):
        async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
            begun.set()
            await finish.wait()
            return Completed(content.text)

    async with runtime_of(Slow) as runtime:
        first = await runtime.start("first", context_id="c")
        waiting = await runtime.start("second", context_id="c")
        await begun.wait()
        cancelled = await runtime.cancel(waiting.id)
        finish.set()
        third = await runtime.send("third", context_id="c")

        assert (await runtime.get(first.id)).state is TaskState.COMPLETED
    assert (cancelled.state, third.text) == (TaskState.CANCELLED, "third")
