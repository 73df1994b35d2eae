"""Everything a skill may use while it runs."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import JsonValue

from dragoman.context import Caller
from dragoman.kit._effects import Effects, InMemoryEffects, TurnEffects
from dragoman.kit._errors import NoModel
from dragoman.kit._function import LlmFunction
from dragoman.kit._llm import Llm, Metered, Usage
from dragoman.kit._ports import (
    Activity,
    Cancellation,
    InMemoryState,
    Progress,
    ProgressPort,
    SilentProgress,
    State,
    StatePort,
    Uncancelled,
)
from dragoman.kit._slot import SkillSlot
from dragoman.kit._thread import Thread
from dragoman.kit._tool import ToolContext, ToolSource
from dragoman.kit._worker import LlmWorker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Host:
    """What a host gives to one turn: its ports, and what the sender put beside the message.

    The defaults keep everything in memory and tell nobody.
    """

    state: StatePort = field(default_factory=InMemoryState)
    progress: ProgressPort = field(default_factory=SilentProgress)
    cancellation: Cancellation = field(default_factory=Uncancelled)
    effects: Effects = field(default_factory=InMemoryEffects)
    message_id: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


class Context:
    """One turn of one task. Hosts make it; skills use it and keep nothing of it.

    `thread` is what was said in this conversation before the present message; `message_id` and `metadata` are what
    the sender put beside that message. What is done outside goes through `effects`, for a turn may run twice.
    """

    def __init__(
        self,
        task_id: str,
        context_id: str,
        *,
        host: Host | None = None,
        llm: Llm | None = None,
        instructions: str | None = None,
        thread: Thread | None = None,
        slot: SkillSlot | None = None,
        caller: Caller | None = None,
    ) -> None:
        self.task_id, self.context_id, self.caller = task_id, context_id, caller
        self.thread, self.instructions = thread or Thread(), instructions
        self._host, self._slot = host or Host(), slot
        self._llm = None if llm is None else Metered(llm)
        self._others: list[Metered] = []
        self.state, self.progress = State(self._host.state), Progress(self._host.progress)
        self.effects: Effects = TurnEffects(self._host.effects)

    @property
    def resumed(self) -> bool:
        """Whether the message answers a question that the task has asked."""
        return self._slot is not None

    @property
    def slot(self) -> SkillSlot:
        """The slot of the question that is being answered.

        Raises:
            LookupError: the task is not being resumed.
        """
        if self._slot is None:
            raise LookupError("there is no slot: this message begins a task, it answers no question")
        return self._slot

    @property
    def message_id(self) -> str | None:
        """The id that the sender gave to the message."""
        return self._host.message_id

    @property
    def metadata(self) -> Mapping[str, JsonValue]:
        """What the sender put beside the message; it is the sender's word, and nobody has checked it."""
        return self._host.metadata

    @property
    def cancelled(self) -> bool:
        """Whether the task is to stop. Awaiting code is cancelled anyway; a long calculation can look here."""
        return self._host.cancellation.is_set()

    @property
    def has_llm(self) -> bool:
        """Whether there is a model."""
        return self._llm is not None

    @property
    def usage(self) -> Usage:
        """What the models of this turn have used so far."""
        used = Usage() if self._llm is None else self._llm.usage
        return sum((other.usage for other in self._others), used)

    def llm(self, output_type: type[T], *, system: str | None = None, on: Llm | None = None) -> LlmFunction[T]:
        """A function on the agent's model, or `on` another; without `system` it gets the agent's instructions.

        Raises:
            NoModel: the agent has none.
        """
        if on is None:
            return LlmFunction(self._model(), output_type, system=self._prompt(system))
        self._others.append(Metered(on))
        return LlmFunction(self._others[-1], output_type, system=self._prompt(system))

    def worker(
        self,
        output_type: type[T],
        *,
        tools: Sequence[ToolSource] = (),
        system: str | None = None,
        max_iterations: int = 20,
        budget_tokens: int | None = None,
    ) -> LlmWorker[T]:
        """A worker on the agent's model, whose tools know this task and its caller.

        Raises:
            NoModel: the agent has none.
        """
        return LlmWorker(
            self._model(),
            output_type,
            system=self._prompt(system),
            tools=tools,
            max_iterations=max_iterations,
            budget_tokens=budget_tokens,
            context=self.for_tool(),
            on_activity=self._host.progress.activity,
        )

    def for_tool(self, call_id: str = "") -> ToolContext:
        """What a tool may know of this task."""
        return ToolContext(
            call_id=call_id,
            task_id=self.task_id,
            context_id=self.context_id,
            caller=self.caller,
            state=self.state,
            progress=self.progress,
            cancellation=self._host.cancellation,
            effects=self.effects,
        )

    def as_request(self) -> "Context":
        """The same turn for a skill that has not been asked yet; it answers no question."""
        changed = copy.copy(self)
        changed._slot = None  # noqa: SLF001 a copy of itself
        return changed

    async def activity(self, activity: Activity, *tools: str) -> None:
        """Tell the host what the task is busy with."""
        await self._host.progress.activity(activity, tools)

    def _model(self) -> Llm:
        if self._llm is None:
            raise NoModel
        return self._llm

    def _prompt(self, system: str | None) -> str | None:
        return self.instructions if system is None else system
